/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One cursor goes over the file from record to record, and reads of each what is wanted through a window: records of
 * code are mostly code, which is stepped over. The size that each tells of itself is believed only as far as the file
 * goes, and nothing in a record is looked for beyond it.
 */

#include "jitdump.h"

#include <string.h>
#include <sys/stat.h>

#define MAGIC 0x4a695444U /* "JiTD" in the writer's byte order */
#define FLAG_COUNTER UINT64_C(1)
#define WINDOW_SIZE (16U << 10)
#define AT_ONCE_MAX (UINT64_C(64) << 20)   /* bytes that one update reads */
#define AT_ONCE_MIN (UINT64_C(1) << 20)    /* and this much however long it takes */
#define IN_ALL_MAX (UINT64_C(4) << 30)     /* and all of them of one file, where code is stepped over */
#define NAME_MAX_ 8192U                    /* as much of a name is kept */
#define NAME_SEARCH_MAX (UINT64_C(1) << 20) /* and its end is looked for so far */
#define HEADER_SIZE_MAX 4096U
#define LINES_MAX (1U << 16) /* of one piece of code */
#define LINES_SIZE_MAX (UINT64_C(4) << 20) /* and bytes of the record that tells them */
#define RECORD_ALIGNMENT 8U /* less may be behind what a record has */
/* What V8 adds to the addresses of lines, for the header of the ELF file that perf is to make of the code. */
#define ELF_HEADER_SIZE 64U

enum {
        CODE_LOAD = 0,
        CODE_MOVE = 1,
        CODE_DEBUG_INFO = 2,
};

typedef struct Header {
        uint32_t magic, version, size, machine, pad, pid;
        uint64_t time, flags;
} Header;

typedef struct Prefix {
        uint32_t id, size; /* of the record, with this */
        uint64_t time;
} Prefix;

typedef struct Load {
        uint32_t pid, tid;
        uint64_t vma, address, size, index;
} Load; /* then the name with its final 0, then the code */

typedef struct Move {
        uint32_t pid, tid;
        uint64_t vma, from, to, size, index;
} Move;

typedef struct DebugInfo {
        uint64_t address, n;
} DebugInfo; /* then so many lines */

typedef struct DebugLine {
        uint64_t address;
        int32_t line, column;
} DebugLine; /* then the file's name with its final 0, or "\377" for the same as before */

/* What a line's addresses are counted from, which the first ones to be beyond the code's end, or before its start, tell. */
typedef enum LineBase {
        LINE_BASE_UNKNOWN,
        LINE_BASE_CODE,
        LINE_BASE_ELF_HEADER,
} LineBase;

struct JitDump {
        unsigned n_refs;
        uint64_t generation;
        int fd;              /* -1: memory */
        const uint8_t *data; /* valid only while it is parsed */
        uint64_t size;       /* of the file, as it is now */
        uint64_t read;       /* bytes of whole records that were read */
        bool more;           /* are there that could be read */
        int failed;          /* -errno: nothing more is read */
        bool by_counter;
        int64_t ahead; /* ns: of the writer's CLOCK_MONOTONIC; the counter is everybody's */
        LineBase line_base;
        JitCode *code;
        uint64_t looked_at; /* bytes of the file */
        uint8_t *window;
        uint64_t window_offset;
        size_t window_size;
        /* Of the code that is loaded next. */
        uint64_t lines_address;
        JitLine *lines;
        size_t n_lines, lines_allocated;
};

pid_t jitdump_path_get_pid(const char *path, size_t len) {
        static const char prefix[] = "jit-", suffix[] = ".dump", deleted[] = " (deleted)";
        size_t n_prefix = sizeof(prefix) - 1, n_suffix = sizeof(suffix) - 1, n_deleted = sizeof(deleted) - 1;
        const char *name, *end;
        pid_t pid = 0;

        if (len > n_deleted && memcmp(path + len - n_deleted, deleted, n_deleted) == 0)
                len -= n_deleted;
        name = memrchr(path, '/', len);
        end = path + len;
        name = name ? name + 1 : path;
        if ((size_t) (end - name) <= n_prefix + n_suffix || memcmp(name, prefix, n_prefix) != 0 ||
            memcmp(end - n_suffix, suffix, n_suffix) != 0)
                return -1;
        end -= n_suffix;
        for (name += n_prefix; name < end; name++) {
                if (*name < '0' || *name > '9' || pid > (INT32_MAX - 9) / 10)
                        return -1;
                pid = pid * 10 + (*name - '0');
        }
        return pid > 0 ? pid : -1;
}

static int new_with(JitDump **ret, JitMemory *memory) {
        _cleanup_(jitdump_freep) JitDump *dump = calloc(1, sizeof(*dump));
        int r;

        if (!dump)
                return -ENOMEM;
        dump->n_refs = 1;
        dump->fd = -1;
        r = jit_code_new(&dump->code, memory);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(dump);
        return 0;
}

int jitdump_new(JitDump **ret) {
        return new_with(ret, NULL);
}

int jitdump_new_take_fd(JitDump **ret, int fd, int64_t ahead, JitMemory *memory) {
        int r;

        r = new_with(ret, memory);
        if (r < 0)
                return r;
        (*ret)->fd = fd;
        (*ret)->ahead = ahead;
        return 0;
}

JitDump *jitdump_ref(JitDump *dump) {
        dump->n_refs++;
        return dump;
}

JitDump *jitdump_free(JitDump *dump) {
        if (!dump || --dump->n_refs > 0)
                return NULL;
        jit_code_free(dump->code);
        close_fd(dump->fd);
        free(dump->window);
        free(dump->lines);
        free(dump);
        return NULL;
}

const JitCode *jitdump_get_code(const JitDump *dump) {
        return dump->code;
}

/* ---- bytes ---- */

static int fill_window(JitDump *dump, uint64_t offset) {
        size_t want = (size_t) MIN(dump->size - offset, (uint64_t) WINDOW_SIZE);
        ssize_t n;

        if (!dump->window) {
                dump->window = malloc(WINDOW_SIZE);
                if (!dump->window)
                        return -ENOMEM;
        }
        dump->window_size = 0;
        if (dump->looked_at > IN_ALL_MAX)
                return -EFBIG;
        n = RETRY_ON_EINTR(pread(dump->fd, dump->window, want, (off_t) offset));
        if (n < 0)
                return -errno;
        dump->window_offset = offset;
        dump->window_size = (size_t) n;
        dump->looked_at += (uint64_t) n;
        return 0;
}

/* At least one byte at offset, which must be in the file; how many there are in a row. Valid until it is called again. */
static int peek(JitDump *dump, uint64_t offset, const uint8_t **ret, size_t *ret_size) {
        int r;

        if (offset >= dump->size)
                return -EBADMSG;
        if (dump->data) {
                *ret = dump->data + offset;
                *ret_size = (size_t) (dump->size - offset);
                return 0;
        }
        if (offset < dump->window_offset || offset - dump->window_offset >= dump->window_size) {
                r = fill_window(dump, offset);
                if (r < 0)
                        return r;
                if (dump->window_size == 0) /* it was longer when we looked */
                        return -ESTALE;
        }
        *ret = dump->window + (offset - dump->window_offset);
        *ret_size = dump->window_size - (size_t) (offset - dump->window_offset);
        return 0;
}

/* A part of a record, from *offset to its end at most. */
static int read_bytes(JitDump *dump, uint64_t *offset, uint64_t end, void *ret, size_t size) {
        if (*offset > end || size > end - *offset)
                return -EBADMSG;
        for (size_t done = 0; done < size;) {
                const uint8_t *p;
                size_t n;
                int r;

                r = peek(dump, *offset, &p, &n);
                if (r < 0)
                        return r;
                n = MIN(n, size - done);
                memcpy((uint8_t *) ret + done, p, n);
                *offset += n;
                done += n;
        }
        return 0;
}

/* Up to a 0, which must stand before end. Of more than fit the beginning is kept. name: NAME_MAX_ bytes. */
static int read_name(JitDump *dump, uint64_t *offset, uint64_t end, char *name, size_t *ret_len) {
        size_t len = 0;

        end = MIN(end, *offset + NAME_SEARCH_MAX);
        while (*offset < end) {
                const uint8_t *p, *zero;
                size_t n, kept;
                int r;

                r = peek(dump, *offset, &p, &n);
                if (r < 0)
                        return r;
                n = (size_t) MIN(n, end - *offset);
                zero = memchr(p, 0, n);
                n = zero ? (size_t) (zero - p) : n;
                kept = MIN(n, NAME_MAX_ - len);
                memcpy(name + len, p, kept);
                len += kept;
                *offset += n + (zero != NULL);
                if (zero) {
                        *ret_len = len;
                        return 0;
                }
        }
        return -EBADMSG;
}

/* ---- records ---- */

static uint64_t convert_time(const JitDump *dump, const JitClock *clock, uint64_t time) {
        return dump->by_counter ? jit_clock_from_counter(clock, time)
                                : jit_clock_from_monotonic(clock, time - (uint64_t) dump->ahead);
}

static int add_line(JitDump *dump, const JitLine *line) {
        if (dump->n_lines == dump->lines_allocated) {
                size_t allocated = MAX(dump->lines_allocated * 2, (size_t) 64);
                JitLine *lines = reallocarray(dump->lines, allocated, sizeof(*lines));

                if (!lines)
                        return -ENOMEM;
                dump->lines = lines;
                dump->lines_allocated = allocated;
        }
        dump->lines[dump->n_lines++] = *line;
        return 0;
}

/*
 * Offsets of lines are left as they stand until the code is known whose they are. The record must have as many as it says and
 * end behind them, or none is believed: V8 writes names of files out of memory that it has freed, where zeros may stand by
 * then, and each is the end of what is read as a name.
 */
static int read_debug_info(JitDump *dump, uint64_t offset, uint64_t end) {
        char name[NAME_MAX_];
        uint32_t file = 0;
        bool any_file = false;
        DebugInfo info;
        int r;

        end = MIN(end, offset + LINES_SIZE_MAX);
        dump->n_lines = 0;
        r = read_bytes(dump, &offset, end, &info, sizeof(info));
        if (r < 0)
                return r;
        dump->lines_address = info.address;
        for (uint64_t i = 0; i < MIN(info.n, LINES_MAX); i++) {
                DebugLine line;
                size_t len;

                r = read_bytes(dump, &offset, end, &line, sizeof(line));
                if (r >= 0)
                        r = read_name(dump, &offset, end, name, &len);
                if (r == -EBADMSG) {
                        dump->n_lines = 0;
                        return 0;
                }
                if (r >= 0 && !(len == 1 && (uint8_t) name[0] == 0xff)) {
                        r = jit_code_add_name(dump->code, name, len, &file);
                        any_file = true;
                }
                if (r < 0)
                        return r;
                if (!any_file || line.line <= 0 || line.address - info.address > UINT32_MAX)
                        continue;
                r = add_line(dump, &(JitLine){ (uint32_t) (line.address - info.address), (uint32_t) line.line, file });
                if (r < 0)
                        return r;
        }
        if (end - offset >= RECORD_ALIGNMENT)
                dump->n_lines = 0;
        return 0;
}

static int compare_lines(const void *a, const void *b) {
        const JitLine *x = a, *y = b;

        return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* How many of the lines there are belong to this code, with offsets from its start: all or none. */
static size_t take_lines(JitDump *dump, const Load *load) {
        size_t n = dump->n_lines;
        uint32_t first, last;

        dump->n_lines = 0;
        if (n == 0 || dump->lines_address != load->address)
                return 0;
        qsort(dump->lines, n, sizeof(*dump->lines), compare_lines);
        first = dump->lines[0].offset;
        last = dump->lines[n - 1].offset;
        if (dump->line_base == LINE_BASE_UNKNOWN) {
                if (first < ELF_HEADER_SIZE)
                        dump->line_base = LINE_BASE_CODE;
                else if (last >= load->size)
                        dump->line_base = LINE_BASE_ELF_HEADER;
                else
                        return 0;
        }
        if (dump->line_base == LINE_BASE_CODE)
                return n;
        if (first < ELF_HEADER_SIZE)
                return 0;
        for (size_t i = 0; i < n; i++)
                dump->lines[i].offset -= ELF_HEADER_SIZE;
        return n;
}

static int read_load(JitDump *dump, uint64_t time, uint64_t offset, uint64_t end) {
        char name[NAME_MAX_];
        JitLoad code = { .time = time };
        Load load;
        size_t len;
        int r;

        r = read_bytes(dump, &offset, end, &load, sizeof(load));
        if (r >= 0)
                r = read_name(dump, &offset, end, name, &len);
        if (r >= 0)
                r = jit_code_add_name(dump->code, name, len, &code.name);
        if (r < 0)
                return r;
        code.start = load.address;
        code.size = load.size;
        code.index = load.index;
        code.n_lines = take_lines(dump, &load);
        code.lines = dump->lines;
        return jit_code_load(dump->code, &code);
}

static int read_move(JitDump *dump, uint64_t time, uint64_t offset, uint64_t end) {
        Move move;
        int r;

        r = read_bytes(dump, &offset, end, &move, sizeof(move));
        return r < 0 ? r : jit_code_move(dump->code, time, move.from, move.to, move.size, move.index);
}

static int read_header(JitDump *dump) {
        uint64_t offset = 0;
        Header header;
        int r;

        if (dump->size < sizeof(header))
                return 0;
        r = read_bytes(dump, &offset, dump->size, &header, sizeof(header));
        if (r < 0)
                return r;
        if (header.magic != MAGIC || header.size < sizeof(header) || header.size > HEADER_SIZE_MAX)
                return -EBADMSG;
        dump->by_counter = header.flags & FLAG_COUNTER;
        if (header.size <= dump->size)
                dump->read = header.size;
        return 0;
}

/* Returns 1, 0: the next record is not there yet. */
static int read_record(JitDump *dump, const JitClock *clock) {
        uint64_t offset = dump->read, end, time;
        Prefix prefix;
        int r;

        if (dump->size - offset < sizeof(prefix))
                return 0;
        r = read_bytes(dump, &offset, dump->size, &prefix, sizeof(prefix));
        if (r < 0)
                return r;
        if (prefix.size < sizeof(prefix))
                return -EBADMSG;
        if (prefix.size > dump->size - dump->read)
                return 0;
        end = dump->read + prefix.size;
        time = convert_time(dump, clock, prefix.time);
        switch (prefix.id) {
        case CODE_LOAD:
                r = read_load(dump, time, offset, end);
                break;
        case CODE_MOVE:
                r = read_move(dump, time, offset, end);
                break;
        case CODE_DEBUG_INFO:
                r = read_debug_info(dump, offset, end);
                break;
        }
        if (r < 0)
                return r;
        dump->read = end;
        return 1;
}

static bool may_read_on(const JitDump *dump, uint64_t before, uint64_t deadline) {
        uint64_t n = dump->looked_at - before;

        return n < AT_ONCE_MAX && (n < AT_ONCE_MIN || now_ns(CLOCK_MONOTONIC) < deadline);
}

static int read_all(JitDump *dump, const JitClock *clock, uint64_t deadline) {
        uint64_t before, looked_at = dump->looked_at;
        int r = 1;

        if (dump->read == 0) {
                r = read_header(dump);
                if (r < 0 || dump->read == 0)
                        return r;
        }
        /* Before it is known how fast the counter runs its times say nothing. */
        if (dump->by_counter && convert_time(dump, clock, clock->last.counter) == UINT64_MAX)
                return 0;
        before = dump->read;
        do
                r = read_record(dump, clock);
        while (r > 0 && may_read_on(dump, looked_at, deadline));
        dump->more = r > 0;
        return r < 0 ? r : dump->read > before;
}

static int update(JitDump *dump, const JitClock *clock, uint64_t deadline) {
        int r;

        dump->more = false;
        if (dump->failed < 0)
                return dump->failed;
        if (dump->size < dump->read)
                return -ESTALE;
        r = read_all(dump, clock, deadline);
        if (r == -EBADMSG || r == -EFBIG)
                dump->failed = r;
        if (r != 0)
                dump->generation++; /* before what failed there may have been something */
        return r;
}

uint64_t jitdump_get_generation(const JitDump *dump) {
        return dump->generation;
}

bool jitdump_has_more(const JitDump *dump) {
        return dump->more;
}

int jitdump_parse(JitDump *dump, const JitClock *clock, const uint8_t *data, size_t size) {
        int r;

        dump->data = data;
        dump->size = size;
        r = update(dump, clock, UINT64_MAX);
        dump->data = NULL;
        return r;
}

int jitdump_update(JitDump *dump, const JitClock *clock, uint64_t deadline) {
        struct stat st;

        if (fstat(dump->fd, &st) < 0)
                return -errno;
        dump->size = (uint64_t) st.st_size;
        return update(dump, clock, deadline);
}
