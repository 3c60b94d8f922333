import os

from headrace.base.compiled import take_compiled_modules

take_compiled_modules(os.path.dirname(os.path.abspath(__file__)))
