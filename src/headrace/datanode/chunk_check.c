/* Checking the CRC-32C of many chunks by the processor's own instruction.
 *
 * Owns: the arithmetic. Must not know: packets, files, other kinds of checksums (`chunk_checksums`).
 *
 * The instruction takes three cycles, and another may begin in each of them: so three chunks are gone through side
 * by side. A library takes one buffer a call, and would have to be called for every 512 bytes; what that costs, and the
 * way around it, is told in `chunk_checksums`, which does it without this module.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define WITH_CRC __attribute__((target("sse4.2")))
#define CRC_8(crc, word) ((uint32_t)_mm_crc32_u64(crc, word))
#define CRC_1(crc, byte) _mm_crc32_u8(crc, byte)
static int has_crc(void)
{
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#define WITH_CRC __attribute__((target("arch=armv8-a+crc")))
#define CRC_8(crc, word) __builtin_aarch64_crc32cx(crc, word)
#define CRC_1(crc, byte) __builtin_aarch64_crc32cb(crc, byte)
static int has_crc(void)
{
    return (getauxval(AT_HWCAP) & (1 << 7)) != 0; /* HWCAP_CRC32 */
}
#else
#define WITH_CRC
#define CRC_8(crc, word) ((void)(word), (crc))
#define CRC_1(crc, byte) ((void)(byte), (crc))
static int has_crc(void)
{
    return 0;
}
#endif

enum { CHECKSUM_BYTES = 4, ABREAST = 3 };

static uint64_t word_at(const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static uint32_t claim_at(const unsigned char *at) /* big endian, and without the last inversion */
{
    return ~((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
}

WITH_CRC static uint32_t crc_of(const unsigned char *data, Py_ssize_t count)
{
    uint32_t crc = ~0u;
    for (; count >= 8; count -= 8, data += 8)
        crc = CRC_8(crc, word_at(data));
    for (; count > 0; count--, data++)
        crc = CRC_1(crc, *data);
    return crc;
}

/* Is every chunk of `data` what `sums` say? */
WITH_CRC static int is_good(const unsigned char *data, Py_ssize_t count, const unsigned char *sums, Py_ssize_t chunk)
{
    if (chunk % 8 == 0)
        for (; count >= ABREAST * chunk; count -= ABREAST * chunk, sums += ABREAST * CHECKSUM_BYTES) {
            const unsigned char *behind = data + chunk;
            uint32_t a = ~0u, b = ~0u, c = ~0u;
            for (; data < behind; data += 8) {
                a = CRC_8(a, word_at(data));
                b = CRC_8(b, word_at(data + chunk));
                c = CRC_8(c, word_at(data + 2 * chunk));
            }
            if (a != claim_at(sums) || b != claim_at(sums + CHECKSUM_BYTES) || c != claim_at(sums + 2 * CHECKSUM_BYTES))
                return 0;
            data += (ABREAST - 1) * chunk;
        }
    for (; count > 0; count -= chunk, data += chunk, sums += CHECKSUM_BYTES)
        if (crc_of(data, count < chunk ? count : chunk) != claim_at(sums))
            return 0;
    return 1;
}

/* 1: good, 0: bad, -1: an exception was set. */
static int check(PyObject *piece, PyObject *checksums, Py_ssize_t chunk)
{
    Py_buffer data, sums;
    int outcome = -1;
    if (PyObject_GetBuffer(piece, &data, PyBUF_SIMPLE))
        return -1;
    if (!PyObject_GetBuffer(checksums, &sums, PyBUF_SIMPLE)) {
        if (sums.len == (data.len + chunk - 1) / chunk * CHECKSUM_BYTES)
            outcome = is_good(data.buf, data.len, sums.buf, chunk);
        else
            PyErr_Format(PyExc_ValueError, "%zd bytes of checksums for %zd bytes of data", sums.len, data.len);
        PyBuffer_Release(&sums);
    }
    PyBuffer_Release(&data);
    return outcome;
}

static PyObject *first_bad_piece(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    PyObject *pieces, *checksums;
    Py_ssize_t chunk;
    if (count != 3 || !PyList_Check(pieces = arguments[0]) || !PyList_Check(checksums = arguments[1]) ||
        PyList_GET_SIZE(pieces) != PyList_GET_SIZE(checksums)) {
        PyErr_SetString(PyExc_TypeError, "first_bad_piece(pieces, checksums, chunk_bytes): two lists, equally long");
        return NULL;
    }
    chunk = PyLong_AsSsize_t(arguments[2]);
    if (chunk < 1 || chunk > 1 << 30) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "chunk_bytes is out of range");
        return NULL;
    }
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(pieces) && index < PyList_GET_SIZE(checksums); index++) {
        int outcome = check(PyList_GET_ITEM(pieces, index), PyList_GET_ITEM(checksums, index), chunk);
        if (outcome < 0)
            return NULL;
        if (outcome == 0)
            return PyLong_FromSsize_t(index);
    }
    return PyLong_FromLong(-1);
}

static PyMethodDef methods[] = {
    {"first_bad_piece", (PyCFunction)(void (*)(void))first_bad_piece, METH_FASTCALL,
     "The index of a piece that is not what its checksums say, or -1. Each starts a chunk."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "chunk_check",
    .m_doc = "CRC-32C of chunks, checked many at a time.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit_chunk_check(void)
{
    if (!has_crc()) {
        PyErr_SetString(PyExc_ImportError, "this processor has no instruction for CRC-32C");
        return NULL;
    }
    return PyModule_Create(&module);
}
