"""`memcpy` for compiled kernels: a loop over bytes is not made into one, and costs ten times it.

Owns: that one call. Checks nothing: who calls it has checked that both sides have the bytes.
numba does not see a change here when it looks whether its cached kernels are still good.
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _copy_bytes(typing_context, target, target_at, source, source_at, count):  # noqa: ARG001
    """target[target_at : target_at + count] = source[source_at : source_at + count]"""
    signature = types.void(target, types.int64, source, types.int64, types.int64)

    def generate(context, builder, signature, arguments):
        target, target_at, source, source_at, count = arguments
        into = context.make_array(signature.args[0])(context, builder, target)
        out_of = context.make_array(signature.args[2])(context, builder, source)
        cgutils.raw_memcpy(
            builder,
            builder.gep(into.data, [target_at]),
            builder.gep(out_of.data, [source_at]),
            count,
            1,
        )
        return context.get_dummy_value()

    return signature, generate


copy_bytes: Any = intrinsic(_copy_bytes)
"""In a kernel: copy_bytes(target, target_at, source, source_at, count)."""
