"""Facts about TIMIT: its phones, and who speaks in the core test and in the development set."""

_PHONES = """
aa ae ah ao aw ax ax-h axr ay b bcl ch d dcl dh dx eh el em en eng epi er ey f g gcl h# hh hv ih ix iy jh k kcl l m n ng
nx ow oy p pau pcl q r s sh t tcl th uh uw ux v w y z zh
"""
# Table 1 of the corpus's testset.doc: two men and a woman of each dialect.
_CORE_TEST = """
mdab0 mwbt0 felc0 mtas1 mwew0 fpas0 mjmp0 mlnt0 fpkt0 mlll0 mtls0 fjlm0 mbpm0 mklt0 fnlp0 mcmj0 mjdh0 fmgd0 mgrt0 mnjm0
fdhc0 mjln0 mpam0 fmld0
"""
# The 50 of the TEST speakers that Kaldi's recipe and most papers develop on.
_DEVELOPMENT = """
faks0 fdac1 fjem0 mgwt0 mjar0 mmdb1 mmdm2 mpdf0 fcmh0 fkms0 mbdg0 mbwm0 mcsh0 fadg0 fdms0 fedw0 mgjf0 mglb0 mrtk0 mtaa0
mtdt0 mthc0 mwjg0 fnmr0 frew0 fsem0 mbns0 mmjr0 mdls0 mdlf0 mdvc0 mers0 fmah0 fdrw0 mrcs0 mrjm4 fcal1 mmwh0 fjsj0 majc0
mjsw0 mreb0 fgjd0 fjmg0 mroa0 mteb0 mjfc0 mrjr0 fmml0 mrws1
"""

PHONES = tuple(_PHONES.split())
CORE_TEST = frozenset(_CORE_TEST.split())
DEVELOPMENT = frozenset(_DEVELOPMENT.split())
