"""Makes fp8.json: rows quantised to FP8 (e4m3) with a scale for each row, by the definition of the format and without a library.

  python3 tests/golden/llm-techniques/fp8.py

A number of e4m3 has 3 bits of mantissa and exponents from -6 to 8; the greatest is 448, and multiples of 2^-9 are below 2^-6. A row's scale
is its greatest number divided by 448, by means of the reciprocals of 448 and of the scale, each rounded to fp32.
"""
import json, math, os, random, struct

here = os.path.dirname(os.path.abspath(__file__))
random.seed(1)
LEAST = 2.0 ** -126                                      # the least normal number of fp32


def fp32(x): return struct.unpack('f', struct.pack('f', x))[0]


def bf16(x):                                             # to nearest, ties to even
    bits = struct.unpack('I', struct.pack('f', x))[0]
    return struct.unpack('f', struct.pack('I', (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0]


def code(x):
    """The code of a number between -448 and 448: to nearest, ties to even."""
    sign = 128 if math.copysign(1, x) < 0 else 0
    if x == 0: return sign
    exponent = max(math.frexp(abs(x))[1] - 1, -6)
    eighths = round(abs(x) / 2.0 ** (exponent - 3))      # 8 to 16; below 8 for numbers under 2^-6
    if eighths == 16: eighths, exponent = 8, exponent + 1
    return sign + (eighths if eighths < 8 else (exponent + 7) * 8 + eighths - 8)


def quantised(row):
    scale = max(fp32(max(map(abs, row)) * fp32(1 / 448)), LEAST)
    inverse = fp32(1 / scale)
    return dict(numbers=row, scale=scale, codes=[code(min(max(fp32(x * inverse), -448.0), 448.0)) for x in row])


WIDTH = 32
rows = [[bf16(random.gauss(0, spread)) for _ in range(WIDTH)] for spread in (1.0, 0.02, 300.0, 1e-5, 1e20, 1e-30)]
rows.append([0.0] * WIDTH)
rows.append([-0.0] * (WIDTH - 1) + [2.0 ** -130])        # the scale is the least one
rows.append([448.0] + [k + 16.0 for k in range(WIDTH - 1)])              # ties: steps of 2 from 16 on, of 4 from 32 on
rows.append([-448.0] + [k * 2.0 ** -10 for k in range(WIDTH - 1)])       # ties below 2^-6, where steps are 2^-9
rows.append([3.5 if k == 7 else bf16(math.exp(-k)) for k in range(WIDTH)])
rows.append([bf16((-1) ** k * 1.3 ** k) for k in range(WIDTH)])
for row in rows: assert all(x == bf16(x) for x in row), row
with open(os.path.join(here, 'fp8.json'), 'w') as file:
    file.write('[\n' + ',\n'.join(json.dumps(quantised(row)) for row in rows) + '\n]\n')
