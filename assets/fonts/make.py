#!/usr/bin/env python3
"""Makes the window's typefaces from Inter 4 (OFL, https://rsms.me/inter): figures of equal width, and the
characters that the window uses.

    apt-get download fonts-inter; dpkg -x fonts-inter_*.deb inter
    pip install fonttools
    python3 make.py inter/usr/share/fonts/opentype/inter

Inter's default figures are proportional; egui knows no OpenType features, so the tabular ones (`tnum`) take
their place here.
"""
import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

CHARACTERS = [
    *range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x370, 0x400), *range(0x2000, 0x2070),
    *range(0x2070, 0x20A0), *range(0x2190, 0x2200), *range(0x2200, 0x2270), *range(0x2460, 0x2500),
    *range(0x25A0, 0x2600), 0x2713, 0x2717,
]

for style in ["Regular", "SemiBold"]:
    font = TTFont(Path(sys.argv[1]) / f"Inter-{style}.otf")
    tabular = {}
    for record in font["GSUB"].table.FeatureList.FeatureRecord:
        if record.FeatureTag == "tnum":
            for index in record.Feature.LookupListIndex:
                for table in font["GSUB"].table.LookupList.Lookup[index].SubTable:
                    tabular |= getattr(table, "ExtSubTable", table).mapping
    for table in font["cmap"].tables:
        if table.isUnicode():
            table.cmap = {code: tabular.get(name, name) if 0x30 <= code <= 0x39 else name for code, name in table.cmap.items()}
    options = subset.Options(layout_features=["kern"], name_IDs=["*"], notdef_outline=True)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=CHARACTERS)
    subsetter.subset(font)
    font.save(Path(__file__).parent / f"Inter-{style}.otf")
