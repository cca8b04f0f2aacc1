"""Words that are no secrets: what people write where one would stand, and what follows "the password is"."""

_WORDS = """
none null nil undefined true false yes no n/a na nan empty blank required optional todo tbd unknown redacted hidden
masked omitted missing invalid valid expired wrong correct incorrect default same different unset set string str
text bytes int integer number float bool boolean any object array list dict map optional[str] str|none any|none self
this that these those it its the a an and or but nor if so as at by for from in into of off on onto out over per to
up via with within without is are was were be been being has have had do does did can could may might must shall
should will would not never always already also only just still now then here there where when what which who whose
why how all each every some many more most much few less least own my your his her our their one two three first
last next new old good bad great simple simply easy hard long short strong weak safe secure secret public private
important essential very too quite really rather pretty flag option argument parameter value values field name names
file files key keys token tokens password passwords secrets user users username see ask use used using get gets
given because until unless before after about above below between under again once ok okay fine done sent changed
stored hashed encrypted saved kept written shared reset rotated known lost gone due ready back free available
usually probably falsch richtig nicht das der die ein eine leer gleich est erroné le la les un une el los falsa
"""

ORDINARY = frozenset(_WORDS.split())
