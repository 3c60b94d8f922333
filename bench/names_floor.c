/* The floor under a NameNode: what its client, the kernel and the disk ask for, and nothing else.
 *
 * Each call is answered with bytes that were made before. Changes that come together share a write and one
 * fdatasync over zeros that were written before, and the close of a file that was just made goes with the next one, as
 * ours does (`headrace.namespace.ops.complete`); the loop looks for the next call for a moment before it sleeps, and
 * its core is kept awake meanwhile, as ours is (`headrace.runtime.core_keeper`, the same file).
 * Conversations are opened elsewhere (`bench.hdfs_floor`); what comes here are sockets between two calls. Clients
 * wait for each answer, so that what is read is one whole call; anything else ends the process.
 *
 *   call    size i32 | size u8, RpcRequestHeader: 08 02 10 00 18 call id (zigzag) 22 10 client id 28 00
 *           | size u8, RequestHeader: 0a size u8, method … | request
 *   answer  size i32 | size u8, RpcResponseHeader: 08 call id 10 00 3a 10 client id 40 00 | size u8, body
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS_MAX = 64, CALL_BYTES_MAX = 4096, ANSWER_BYTES_MAX = 512, EDITS_BYTES_MAX = 1 << 16 };
enum change { NONE, OTHER, CREATE, CLOSE };

int core_keeper_start(void);
void core_keeper_keep(int64_t for_ns);

struct method {
    const char *name;
    const char *body;
    int body_bytes;
    int change;
};

struct answer {
    int socket;
    int size;
    unsigned char bytes[ANSWER_BYTES_MAX];
};

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static const struct method *find(const struct method *methods, const unsigned char *name, int size) {
    for (; methods->name != NULL; methods++)
        if (strlen(methods->name) == (size_t)size && memcmp(methods->name, name, size) == 0)
            return methods;
    abort();
}

static const struct method *take(const struct method *methods, const unsigned char *call, int size, struct answer *to) {
    if (size < 32 || (call[0] << 24 | call[1] << 16 | call[2] << 8 | call[3]) != size - 4)
        abort();
    const unsigned char *header = call + 5, *behind = header + call[4], *at = header + 5;
    if (memcmp(header, "\x08\x02\x10\x00\x18", 5) != 0)
        abort();
    uint64_t zigzag = 0;
    int shift = 0;
    do {
        zigzag |= (uint64_t)(*at & 127) << shift;
        shift += 7;
    } while (*at++ & 128);
    const struct method *method = find(methods, behind + 3, behind[2]);

    unsigned char *out = to->bytes + 5;
    uint32_t call_id = (uint32_t)(zigzag >> 1);
    *out++ = 0x08;
    for (; call_id >= 128; call_id >>= 7)
        *out++ = (unsigned char)(call_id | 128);
    *out++ = (unsigned char)call_id;
    memcpy(out, "\x10\x00\x3a\x10", 4);
    memcpy(out + 4, at + 2, 16);
    memcpy(out + 20, "\x40\x00", 2);
    out += 22;
    to->bytes[4] = (unsigned char)(out - to->bytes - 5);
    *out++ = (unsigned char)method->body_bytes;
    memcpy(out, method->body, method->body_bytes);
    out += method->body_bytes;
    to->size = (int)(out - to->bytes);
    uint32_t behind_size = (uint32_t)to->size - 4;
    for (int index = 0; index < 4; index++)
        to->bytes[index] = (unsigned char)(behind_size >> (24 - 8 * index));
    return method;
}

/* Serves the sockets that `epoll` watches, for ever. */
void serve(int epoll, int edits, const struct method *methods, int edit_bytes, int64_t edits_bytes, int awake_us) {
    static struct answer answers[CLIENTS_MAX];
    static unsigned char call[CALL_BYTES_MAX];
    char *edit = calloc(1, EDITS_BYTES_MAX);
    int64_t position = 0;
    /* The last edit made a file; an edit closed it and goes with the next sync. */
    int is_new_alone = 0, lagging = 0;
    if (core_keeper_start() != 0)
        abort();
    for (;;) {
        struct epoll_event ready[CLIENTS_MAX];
        int64_t until_us = now_us() + awake_us;
        int count = 0;
        while (count == 0 && now_us() < until_us)
            count = epoll_wait(epoll, ready, CLIENTS_MAX, 0);
        if (count == 0)
            count = epoll_wait(epoll, ready, CLIENTS_MAX, -1);
        if (count == 1)
            core_keeper_keep(awake_us * 1000LL);
        int answered = 0, changes = 0, change = NONE;
        for (int index = 0; index < count; index++) {
            int socket = ready[index].data.fd;
            ssize_t size = recv(socket, call, CALL_BYTES_MAX, 0);
            if (size <= 0) {
                close(socket);
                continue;
            }
            int asked = take(methods, call, (int)size, &answers[answered])->change;
            answers[answered++].socket = socket;
            if (asked != NONE) {
                change = asked;
                changes++;
            }
        }
        if (changes == 1 && change == CLOSE && is_new_alone) {
            is_new_alone = 0;
            lagging = 1;
        } else if (changes > 0) {
            int64_t size = (int64_t)(changes + lagging) * edit_bytes;
            is_new_alone = changes == 1 && change == CREATE;
            lagging = 0;
            if (position + size > edits_bytes)
                position = 0;
            memset(edit, 0x5a, size);
            if (pwrite(edits, edit, size, position) != size || fdatasync(edits) != 0)
                abort();
            position += size;
        }
        for (int index = 0; index < answered; index++)
            if (send(answers[index].socket, answers[index].bytes, answers[index].size, MSG_NOSIGNAL) < 0)
                close(answers[index].socket);
    }
}
