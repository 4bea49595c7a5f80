/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "debug-lines.h"

#include <limits.h>
#include <string.h>

/* One for each string, code and address; a string's bytes follow. */
typedef struct Message {
        enum { MESSAGE_STRING = 1, MESSAGE_CODE, MESSAGE_AT, MESSAGE_END, MESSAGE_LACK, MESSAGE_WISH } type;
        uint32_t a, b, c, d;
} Message;

int debug_lines_init(DebugLines *lines, size_t n) {
        *lines = (DebugLines){ .n_strings = 1, .n_codes = 1, .n_strings_sent = 1, .n_codes_sent = 1, .n_at = n };
        lines->at = calloc(MAX(n, (size_t) 1), sizeof(*lines->at));
        lines->unsent = calloc(MAX(n, (size_t) 1), sizeof(*lines->unsent));
        if (!lines->at || !lines->unsent) {
                debug_lines_done(lines);
                return -ENOMEM;
        }
        return 0;
}

void debug_lines_done(DebugLines *lines) {
        for (size_t i = 1; i < lines->n_strings && lines->strings; i++)
                free(lines->strings[i]);
        for (size_t i = 0; i < lines->n_wishes; i++)
                free(lines->wishes[i]);
        free(lines->wishes);
        free(lines->strings);
        free(lines->codes);
        free(lines->depths);
        free(lines->at);
        free(lines->unsent);
        table_done(&lines->known_strings);
        table_done(&lines->known_codes);
        *lines = (DebugLines){};
}

/* Makes room for one more. */
static int grow_strings(DebugLines *lines) {
        size_t allocated = MAX(lines->strings_allocated * 2, (size_t) 256);
        char **strings;

        if (lines->n_strings < lines->strings_allocated)
                return 0;
        strings = reallocarray(lines->strings, allocated, sizeof(*strings));
        if (!strings)
                return -ENOMEM;
        strings[0] = NULL;
        lines->strings = strings;
        lines->strings_allocated = allocated;
        return 0;
}

static int grow_codes(DebugLines *lines) {
        size_t allocated = MAX(lines->codes_allocated * 2, (size_t) 256);
        DebugCode *codes;
        uint8_t *depths;

        if (lines->n_codes < lines->codes_allocated)
                return 0;
        codes = reallocarray(lines->codes, allocated, sizeof(*codes));
        if (!codes)
                return -ENOMEM;
        lines->codes = codes;
        depths = reallocarray(lines->depths, allocated, sizeof(*depths));
        if (!depths)
                return -ENOMEM;
        lines->depths = depths;
        codes[0] = (DebugCode){};
        depths[0] = 0;
        lines->codes_allocated = allocated;
        return 0;
}

/* What a chain at each address takes at most. Element 0 does not count. */
static bool is_full(const DebugLines *lines, size_t n, size_t per_code) {
        return n >= DEBUG_LINES_CODES_MAX || n - 1 >= lines->n_at * DEBUG_LINES_DEPTH_MAX * per_code;
}

static int add_bytes(DebugLines *lines, const char *bytes, size_t n, uint32_t *ret) {
        TableKey key;
        int r;

        r = table_string_key(&lines->known_strings, bytes, n, &key);
        if (r < 0)
                return r;
        *ret = (uint32_t) table_get(&lines->known_strings, key);
        if (*ret > 0)
                return 0;
        if (n >= DEBUG_LINES_BYTES_MAX - lines->n_bytes || is_full(lines, lines->n_strings, 2))
                return -EFBIG;
        r = grow_strings(lines);
        if (r < 0)
                return r;
        lines->strings[lines->n_strings] = strndup(bytes, n);
        if (!lines->strings[lines->n_strings])
                return -ENOMEM;
        lines->n_bytes += n;
        *ret = (uint32_t) lines->n_strings++;
        return table_put(&lines->known_strings, key, *ret);
}

int debug_lines_add_string(DebugLines *lines, const char *string, uint32_t *ret) {
        size_t n = string ? strnlen(string, DEBUG_LINES_STRING_MAX) : 0;

        *ret = 0;
        return n > 0 ? add_bytes(lines, string, n, ret) : 0;
}

int debug_lines_add_code(DebugLines *lines, const DebugCode *code, uint32_t *ret) {
        TableKey key = { (uint64_t) code->caller << 32 | code->routine, (uint64_t) code->source << 32 | code->line, 0 };
        unsigned depth = 1 + (code->caller > 0 ? lines->depths[code->caller] : 0U);
        int r;

        *ret = (uint32_t) table_get(&lines->known_codes, key);
        if (*ret > 0)
                return 0;
        if (depth > DEBUG_LINES_DEPTH_MAX || is_full(lines, lines->n_codes, 1))
                return -EFBIG;
        r = grow_codes(lines);
        if (r < 0)
                return r;
        lines->codes[lines->n_codes] = *code;
        lines->depths[lines->n_codes] = (uint8_t) depth;
        *ret = (uint32_t) lines->n_codes++;
        return table_put(&lines->known_codes, key, *ret);
}

void debug_lines_set(DebugLines *lines, size_t address, uint32_t code) {
        if (lines->at[address] != 0 || code == 0)
                return;
        lines->at[address] = code;
        lines->unsent[lines->n_unsent++] = (uint32_t) address;
}

int debug_lines_add_wish(DebugLines *lines, const char *path) {
        if (lines->n_wishes >= DEBUG_LINES_WISHES_MAX || strlen(path) >= PATH_MAX)
                return 0;
        if (lines->n_wishes == lines->wishes_allocated) {
                size_t allocated = MAX(lines->wishes_allocated * 2, (size_t) 64);
                char **wishes = reallocarray(lines->wishes, allocated, sizeof(*wishes));

                if (!wishes)
                        return -ENOMEM;
                lines->wishes = wishes;
                lines->wishes_allocated = allocated;
        }
        lines->wishes[lines->n_wishes] = strdup(path);
        if (!lines->wishes[lines->n_wishes])
                return -ENOMEM;
        lines->n_wishes++;
        return 0;
}

/* ---- from one to the other ---- */

static int copy_string(DebugLinesCopy *copy, uint32_t string, uint32_t *ret) {
        int r = 0;

        if (string > 0 && copy->strings[string] == 0)
                r = debug_lines_add_string(copy->to, copy->from->strings[string], &copy->strings[string]);
        *ret = copy->strings[string];
        return r;
}

static int copy_code(DebugLinesCopy *copy, uint32_t number) {
        const DebugCode *from = &copy->from->codes[number];
        DebugCode code = { .caller = copy->codes[from->caller], .line = from->line };
        int r;

        r = copy_string(copy, from->routine, &code.routine);
        if (r >= 0)
                r = copy_string(copy, from->source, &code.source);
        return r < 0 ? r : debug_lines_add_code(copy->to, &code, &copy->codes[number]);
}

int debug_lines_copy(DebugLinesCopy *copy, size_t address, size_t from_address) {
        uint32_t chain[DEBUG_LINES_DEPTH_MAX], n = 0, code = copy->from->at[from_address];
        int r = 0;

        if (code == 0)
                return 0;
        if (!copy->codes)
                copy->codes = calloc(copy->from->n_codes, sizeof(uint32_t));
        if (!copy->strings)
                copy->strings = calloc(copy->from->n_strings, sizeof(uint32_t));
        if (!copy->codes || !copy->strings)
                return -ENOMEM;
        /* Callers first, as far as they are not there. */
        for (uint32_t c = code; c > 0 && copy->codes[c] == 0; c = copy->from->codes[c].caller)
                chain[n++] = c;
        while (n > 0 && r >= 0)
                r = copy_code(copy, chain[--n]);
        if (r >= 0)
                debug_lines_set(copy->to, address, copy->codes[code]);
        return r;
}

void debug_lines_copy_done(DebugLinesCopy *copy) {
        free(copy->codes);
        free(copy->strings);
}

/* ---- the stream ---- */

static int send_message(const Message *message, const char *bytes, size_t n, FILE *out) {
        if (fwrite(message, sizeof(*message), 1, out) != 1 || (n > 0 && fwrite(bytes, n, 1, out) != 1))
                return -EPIPE;
        return 0;
}

int debug_lines_send(DebugLines *lines, FILE *out) {
        int r = 0;

        for (; lines->n_strings_sent < lines->n_strings && r >= 0; lines->n_strings_sent++) {
                const char *string = lines->strings[lines->n_strings_sent];
                size_t n = strlen(string);

                r = send_message(&(Message){ MESSAGE_STRING, .a = (uint32_t) n }, string, n, out);
        }
        for (; lines->n_codes_sent < lines->n_codes && r >= 0; lines->n_codes_sent++) {
                const DebugCode *code = &lines->codes[lines->n_codes_sent];

                r = send_message(&(Message){ MESSAGE_CODE, code->caller, code->routine, code->source, code->line }, NULL, 0,
                                 out);
        }
        for (size_t i = 0; i < lines->n_unsent && r >= 0; i++)
                r = send_message(&(Message){ MESSAGE_AT, lines->unsent[i], lines->at[lines->unsent[i]] }, NULL, 0, out);
        lines->n_unsent = 0;
        for (; lines->n_wishes_sent < lines->n_wishes && r >= 0; lines->n_wishes_sent++) {
                const char *wish = lines->wishes[lines->n_wishes_sent];
                size_t n = strlen(wish);

                r = send_message(&(Message){ MESSAGE_WISH, .a = (uint32_t) n }, wish, n, out);
        }
        if (lines->lacks_files && !lines->lack_sent && r >= 0)
                r = send_message(&(Message){ MESSAGE_LACK }, NULL, 0, out);
        lines->lack_sent = lines->lacks_files;
        return r < 0 || fflush(out) == 0 ? r : -EPIPE;
}

int debug_lines_send_end(int result, FILE *out) {
        int r = send_message(&(Message){ MESSAGE_END, .a = (uint32_t) -result }, NULL, 0, out);

        return r < 0 || fflush(out) == 0 ? r : -EPIPE;
}

static int take_string(DebugLines *lines, const char *bytes, size_t n) {
        uint32_t expected = (uint32_t) lines->n_strings, number;
        int r;

        if (n == 0 || memchr(bytes, 0, n))
                return -EBADMSG;
        r = add_bytes(lines, bytes, n, &number);
        if (r < 0)
                return r;
        return number == expected ? 0 : -EBADMSG; /* the same twice */
}

static int take_wish(DebugLines *lines, const char *bytes, size_t n) {
        char path[PATH_MAX];

        if (n == 0 || n >= sizeof(path) || memchr(bytes, 0, n))
                return -EBADMSG;
        memcpy(path, bytes, n);
        path[n] = 0;
        return debug_lines_add_wish(lines, path);
}

static int take_code(DebugLines *lines, const Message *m) {
        DebugCode code = { .caller = m->a, .routine = m->b, .source = m->c, .line = m->d };
        uint32_t expected = (uint32_t) lines->n_codes, number;
        int r;

        /* A recording has no room for a higher line, and would be taken for a damaged one. */
        if (code.caller >= lines->n_codes || code.routine >= lines->n_strings || code.source >= lines->n_strings ||
            code.line > INT32_MAX)
                return -EBADMSG;
        r = debug_lines_add_code(lines, &code, &number);
        if (r < 0)
                return r;
        return number == expected ? 0 : -EBADMSG;
}

static int take_at(DebugLines *lines, const Message *m) {
        if (m->a >= lines->n_at || m->b == 0 || m->b >= lines->n_codes || lines->at[m->a] != 0)
                return -EBADMSG;
        lines->at[m->a] = m->b;
        return 0;
}

static int take_end(DebugLines *lines, const Message *m) {
        if (m->a > 4095)
                return -EBADMSG;
        lines->ended = true;
        lines->result = -(int) m->a;
        return 0;
}

int debug_lines_take(DebugLines *lines, const uint8_t *data, size_t n, size_t *ret_used) {
        size_t used = 0;

        while (n - used >= sizeof(Message)) {
                size_t size = sizeof(Message);
                Message m;
                int r;

                memcpy(&m, data + used, sizeof(m));
                if (lines->ended)
                        return -EBADMSG;
                if (m.type == MESSAGE_STRING || m.type == MESSAGE_WISH) {
                        const char *bytes = (const char *) data + used + sizeof(m);

                        if (m.a > DEBUG_LINES_STRING_MAX)
                                return -EBADMSG;
                        size += m.a;
                        if (n - used < size)
                                break;
                        r = m.type == MESSAGE_STRING ? take_string(lines, bytes, m.a) : take_wish(lines, bytes, m.a);
                } else if (m.type == MESSAGE_CODE)
                        r = take_code(lines, &m);
                else if (m.type == MESSAGE_AT)
                        r = take_at(lines, &m);
                else if (m.type == MESSAGE_END)
                        r = take_end(lines, &m);
                else if (m.type == MESSAGE_LACK) {
                        lines->lacks_files = true;
                        r = 0;
                } else
                        r = -EBADMSG;
                if (r < 0)
                        return r;
                used += size;
        }
        *ret_used = used;
        return 0;
}
