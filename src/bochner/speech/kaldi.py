"""The Kaldi wheels, imported in the only order in which they share their C++ types.

>>> from bochner.speech.kaldi import kaldi_decoder, kaldi_hmm_gmm, kaldifst
>>> kaldifst.StdVectorFst().num_states
0
"""

# isort: off
try:
    import kaldifst  # another order hangs, or the next wheel does not know its types
    import kaldi_decoder
    import kaldi_hmm_gmm
except ImportError as error:
    raise ImportError(f"speech graphs, alignment and decoding need: pip install bochner[speech] ({error}).") from error
# isort: on

__all__ = ["kaldi_decoder", "kaldi_hmm_gmm", "kaldifst"]
