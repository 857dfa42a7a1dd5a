"""What NVTX does in a program, for a test of the tracer that is injected into it."""

import ctypes, os, subprocess, sys, time
FUNCTION, TABLE = ctypes.c_void_p, ctypes.c_void_p * 17
core, core2 = (FUNCTION * 17)(), (FUNCTION * 17)()
slots, slots2 = (TABLE(*[ctypes.addressof(all) + 8 * place if 0 < place < 16 else None for place in range(17)]) for all in (core, core2))
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(FUNCTION), ctypes.POINTER(ctypes.c_uint))
def module(number, table, size):
    if number not in (1, 5): return 0
    table[0], size[0] = ctypes.addressof(slots if number == 1 else slots2), 16
    return 1
class Callbacks(ctypes.Structure): _fields_ = [("size", ctypes.c_size_t), ("module", type(module))]
callbacks = Callbacks(ctypes.sizeof(Callbacks), module)
table = ctypes.CFUNCTYPE(FUNCTION, ctypes.c_uint)(lambda number: ctypes.addressof(callbacks) if number == 1 else None)
injected = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
assert injected.InitializeInjectionNvtx2(table) == 1
push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(core[9])
pop = ctypes.CFUNCTYPE(ctypes.c_int)(core[11])
for turn in range(5):
    push(b"turn"); push(b"work"); time.sleep(0.002); pop(); pop()
# As NCCL tells the size of a collective: with the start of its range, or with the end.
class Entry(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("type", ctypes.c_uint64), ("name", ctypes.c_char_p), ("description", ctypes.c_char_p),
                ("detail", ctypes.c_uint64), ("offset", ctypes.c_uint64), ("semantics", FUNCTION), ("reserved", FUNCTION)]
class Schema(ctypes.Structure):
    _fields_ = [("fields", ctypes.c_uint64), ("name", ctypes.c_char_p), ("type", ctypes.c_uint64), ("flags", ctypes.c_uint64),
                ("entries", ctypes.POINTER(Entry)), ("count", ctypes.c_size_t), ("size", ctypes.c_size_t), ("align", ctypes.c_size_t),
                ("id", ctypes.c_uint64), ("extension", FUNCTION)]
class Payload(ctypes.Structure):
    _fields_ = [("schema", ctypes.c_uint64), ("size", ctypes.c_size_t), ("bytes", ctypes.POINTER(ctypes.c_uint64))]
class Attributes(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint16), ("size", ctypes.c_uint16), ("category", ctypes.c_uint32), ("color_type", ctypes.c_int32),
                ("color", ctypes.c_uint32), ("payload_type", ctypes.c_uint32), ("payloads", ctypes.c_int32), ("payload", FUNCTION),
                ("message_type", ctypes.c_int32), ("message", ctypes.c_char_p)]
class Segment(ctypes.Structure): _fields_ = [("id", ctypes.c_size_t), ("count", ctypes.c_size_t), ("slots", ctypes.POINTER(FUNCTION))]
class Extension(ctypes.Structure):
    _fields_ = [("nvtx", ctypes.c_uint16), ("size", ctypes.c_uint16), ("module", ctypes.c_uint16), ("compatible", ctypes.c_uint16),
                ("segments", ctypes.c_size_t), ("segment", ctypes.POINTER(Segment)), ("export", FUNCTION), ("more", FUNCTION)]
extended = (FUNCTION * 63)()
assert injected.InitializeInjectionNvtxExtension(ctypes.byref(Extension(3, 40, 2, 0x103, 1, ctypes.pointer(Segment(0, 63, extended))))) == 1
domain = ctypes.CFUNCTYPE(FUNCTION, ctypes.c_char_p)(core2[12])(b"NCCL")
entries = (Entry * 2)(Entry(0, 18, b"NCCL communicator ID"), Entry(0, 22, b"Message size [bytes]", None, 0, 8))
schema, attributes = Schema(1 << 4 | 1 << 5 | 1 << 8, None, 1, 0, entries, 2, 16, 0, (1 << 24) + 5), Attributes(3, 48, message_type=1)
assert ctypes.CFUNCTYPE(ctypes.c_uint64, FUNCTION, FUNCTION)(extended[0])(domain, ctypes.addressof(schema)) == (1 << 24) + 5
push_in = ctypes.CFUNCTYPE(ctypes.c_int, FUNCTION, FUNCTION)(core2[4])
pop_in = ctypes.CFUNCTYPE(ctypes.c_int, FUNCTION)(core2[5])
pop_with = ctypes.CFUNCTYPE(ctypes.c_int, FUNCTION, FUNCTION, ctypes.c_size_t)(extended[4])
payload = lambda *values: Payload((1 << 24) + 5, 8 * len(values), (ctypes.c_uint64 * len(values))(*values))
if len(sys.argv) == 1:
    push(b"around")
    for values in (7, 4096), (7, 1 << 20), (7,):
        told = payload(*values)
        attributes.message, attributes.payload_type, attributes.payloads = b"ncclAllReduce", 0xDFBD0009, 1
        attributes.payload = ctypes.addressof(told)
        push_in(domain, ctypes.addressof(attributes)); time.sleep(0.001); pop_in(domain)
    attributes.message, attributes.payload_type, told = b"ncclBroadcast", 0, payload(7, 512)
    push_in(domain, ctypes.addressof(attributes)); pop_with(domain, ctypes.addressof(told), 1)
    pop()
    subprocess.run([sys.executable, __file__, "child"], check=True)
elif sys.argv[1] == "child":
    time.sleep(1.5)
    push(b"late"); os.kill(os.getpid(), 9) if os.environ.get("KILL") else pop()
