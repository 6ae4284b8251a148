"""Parity by ISA-L: isal.py DATA PARITY LENGTH. Reads DATA columns of LENGTH bytes, writes PARITY columns."""
import ctypes
import sys

isal = ctypes.CDLL("libisal.so.2")
data, parity, length = (int(word) for word in sys.argv[1:])
columns = data + parity
matrix = (ctypes.c_ubyte * (columns * data))()
isal.gf_gen_rs_matrix(matrix, columns, data)
tables = (ctypes.c_ubyte * (32 * data * parity))()
# the rows below the unit matrix are those of the parity
isal.ec_init_tables(data, parity, ctypes.byref(matrix, data * data), tables)
given = [ctypes.create_string_buffer(sys.stdin.buffer.read(length), length) for _ in range(data)]
made = [ctypes.create_string_buffer(length) for _ in range(parity)]


def pointers(buffers):
    return (ctypes.c_void_p * len(buffers))(*(ctypes.addressof(b) for b in buffers))


isal.ec_encode_data(length, data, parity, tables, pointers(given), pointers(made))
sys.stdout.buffer.write(b"".join(b.raw for b in made))
