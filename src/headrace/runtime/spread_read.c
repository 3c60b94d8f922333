/* One read from a socket, spread over slots and pieces by turns: `datanode.streams.Spread`.
 *
 * Owns: the system call. Must not know: what is read. Spec: recvmsg(2).
 *
 * `socket.recvmsg_into` does the same with a view for each place, and making these costs as much CPU as a quarter
 * of the bytes that come.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <sys/socket.h>
#include <sys/uio.h>

enum { PAIRS_MAX = 256 };

static int spread(struct iovec *places, char *slots, Py_ssize_t slot, char *pieces, Py_ssize_t piece, Py_ssize_t pairs,
                  Py_ssize_t filled)
{
    int count = 0;
    for (Py_ssize_t index = 0; index < pairs; index++) {
        places[count++] = (struct iovec){slots + index * slot, slot};
        places[count++] = (struct iovec){pieces + index * piece, piece};
    }
    /* What came before is in the first pair, and does not fill it. */
    struct iovec *first = places + (filled >= slot);
    Py_ssize_t here = filled >= slot ? filled - slot : filled;
    first->iov_base = (char *)first->iov_base + here;
    first->iov_len -= here;
    return count;
}

static PyObject *receive(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "receive(fd, slots, slot_bytes, pieces, piece_bytes, filled)");
        return NULL;
    }
    long fd = PyLong_AsLong(arguments[0]);
    Py_ssize_t slot = PyLong_AsSsize_t(arguments[2]), piece = PyLong_AsSsize_t(arguments[4]);
    Py_ssize_t filled = PyLong_AsSsize_t(arguments[5]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer slots, pieces;
    if (PyObject_GetBuffer(arguments[1], &slots, PyBUF_WRITABLE))
        return NULL;
    if (PyObject_GetBuffer(arguments[3], &pieces, PyBUF_WRITABLE)) {
        PyBuffer_Release(&slots);
        return NULL;
    }
    Py_ssize_t pairs = 0, got = -1;
    if (slot > 0 && piece > 0)
        pairs = slots.len / slot < pieces.len / piece ? slots.len / slot : pieces.len / piece;
    if (pairs > PAIRS_MAX)
        pairs = PAIRS_MAX;
    if (pairs < 1 || filled < 0 || filled >= slot + piece) {
        /* A read of nothing would look like the peer's end. */
        PyErr_SetString(PyExc_ValueError, "there is no place for anything");
    } else {
        struct iovec places[2 * PAIRS_MAX];
        int used = spread(places, slots.buf, slot, pieces.buf, piece, pairs, filled);
        int skipped = filled >= slot;
        struct msghdr message = {.msg_iov = places + skipped, .msg_iovlen = used - skipped};
        Py_BEGIN_ALLOW_THREADS
        got = recvmsg((int)fd, &message, 0);
        Py_END_ALLOW_THREADS
        if (got < 0)
            PyErr_SetFromErrno(PyExc_OSError);
    }
    PyBuffer_Release(&pieces);
    PyBuffer_Release(&slots);
    return got < 0 ? NULL : PyLong_FromSsize_t(got);
}

static PyMethodDef methods[] = {
    {"receive", (PyCFunction)(void (*)(void))receive, METH_FASTCALL,
     "Read from a socket into slots and pieces by turns, behind the first `filled` bytes of them; how much came."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "spread_read",
    .m_doc = "One read from a socket, spread over two kinds of places by turns.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit_spread_read(void)
{
    return PyModule_Create(&module);
}
