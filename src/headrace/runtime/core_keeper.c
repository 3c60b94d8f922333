/* Keeping the caller's core awake while the caller waits for its disk.
 *
 * Owns: one thread of the lowest priority (SCHED_IDLE) that runs on the core where `keep` was called last, does
 * nothing there, and sleeps once nobody has called for as long as it was told. Must not know: what is waited for.
 *
 * A thread that waits for a disk leaves its core with nothing to do. The core halts; on a virtual machine the host
 * gives it away; and when the disk is done, waking it and finding code and data again takes longer than the work
 * that waited. A thread that runs there instead costs little: whoever has work takes the core from it.
 *
 * It is C because it must never hold the interpreter's lock: at this priority a busy neighbour could keep it from
 * running, and from giving the lock back, for long. It yields all the time because kernels weigh groups of processes
 * before priorities: a spinner of another session that did not yield kept the core for milliseconds at a time. It
 * follows its caller instead of tying it to a core, which threads and processes that the caller starts would inherit.
 */
#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS_PER_YIELD = 20, STACK_BYTES = 64 << 10 };

static _Atomic int64_t until_ns; /* CLOCK_MONOTONIC */
static _Atomic uint32_t is_asleep;
static pthread_t keeper;
static _Atomic pid_t keeper_id; /* 0: none, or none yet */
static int core = -1;           /* where the keeper may run */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void rest(void)
{
    for (int look = 0; look < LOOKS_PER_YIELD; look++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    sched_yield();
}

static void *run(void *nothing)
{
    (void)nothing;
    struct sched_param none = {0};
    /* At any other priority it would take the core from those who work. */
    if (sched_setscheduler(0, SCHED_IDLE, &none))
        return NULL;
    atomic_store(&keeper_id, (pid_t)syscall(SYS_gettid));
    for (;;) {
        if (now_ns() < atomic_load_explicit(&until_ns, memory_order_relaxed)) {
            rest();
            continue;
        }
        atomic_store(&is_asleep, 1);
        if (now_ns() >= atomic_load(&until_ns)) /* else `keep` came between */
            syscall(SYS_futex, &is_asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
        atomic_store(&is_asleep, 0);
    }
}

static void forget(void)
{
    atomic_store(&keeper_id, 0); /* a fork has no such thread */
}

/* 0, or the number of an error. Once; where the thread can't have the lowest priority it ends at once. */
int core_keeper_start(void)
{
    static int has_started;
    if (has_started)
        return 0;
    pthread_attr_t attributes;
    sigset_t all, usual;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* signals are for threads that will run soon */
    pthread_sigmask(SIG_SETMASK, &all, &usual);
    error = pthread_create(&keeper, &attributes, run, NULL);
    pthread_sigmask(SIG_SETMASK, &usual, NULL);
    pthread_attr_destroy(&attributes);
    if (error)
        return error;
    has_started = 1;
    return pthread_atfork(NULL, NULL, forget);
}

/* By one thread only. */
void core_keeper_keep(int64_t for_ns)
{
    pid_t id = atomic_load(&keeper_id);
    if (!id)
        return;
    int here = sched_getcpu();
    if (here != core && here >= 0 && here < CPU_SETSIZE) {
        cpu_set_t there;
        CPU_ZERO(&there);
        CPU_SET(here, &there);
        if (!sched_setaffinity(id, sizeof there, &there))
            core = here;
    }
    atomic_store(&until_ns, now_ns() + for_ns);
    if (atomic_exchange(&is_asleep, 0))
        syscall(SYS_futex, &is_asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static PyObject *start(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    int error = core_keeper_start();
    if (error) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyObject *keep(PyObject *module, PyObject *argument)
{
    (void)module;
    int64_t for_ns = PyLong_AsLongLong(argument);
    if (for_ns == -1 && PyErr_Occurred())
        return NULL;
    core_keeper_keep(for_ns);
    Py_RETURN_NONE;
}

static PyObject *spent_s(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    clockid_t clock;
    struct timespec spent = {0};
    if (atomic_load(&keeper_id) && !pthread_getcpuclockid(keeper, &clock))
        clock_gettime(clock, &spent);
    return PyFloat_FromDouble((double)spent.tv_sec + (double)spent.tv_nsec / 1e9);
}

static PyMethodDef methods[] = {
    {"start", start, METH_NOARGS, "Start the thread, once. Where it can't have the lowest priority it ends, and `keep` does nothing."},
    {"keep", keep, METH_O, "Keep the core that this is called on awake for so many ns from now."},
    {"spent_s", spent_s, METH_NOARGS, "CPU time of the thread so far, in seconds."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "core_keeper",
    .m_doc = "A thread of the lowest priority that keeps its caller's core from sleeping.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit_core_keeper(void)
{
    return PyModule_Create(&module);
}
