"""The NameNode's protocols: messages become requests of the namespace, its values messages.

One file per protocol or part of one; no decision is made here.
"""
