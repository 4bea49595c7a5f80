/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See text.h. Nothing here depends on the locale's numbers: only LC_CTYPE is ever set. */

#include "text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <wchar.h>

#include "ringside.h"
#include "util.h"

#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_SEC UINT64_C(1000000000)
#define DURATION_MAX (366 * 24 * 3600 * NSEC_PER_SEC)

/* Leading digits of *s into *ret; *s stands behind them. */
static int take_digits(const char **s, uint64_t *ret) {
        uint64_t value = 0;

        if (**s < '0' || **s > '9')
                return -EINVAL;
        for (; **s >= '0' && **s <= '9'; (*s)++)
                if (__builtin_mul_overflow(value, (uint64_t) 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t) (**s - '0'), &value))
                        return -ERANGE;
        *ret = value;
        return 0;
}

/* "12", "12.5", ".5" as billionths: nine digits behind the point count, more are refused. */
static int take_decimal(const char **s, uint64_t *ret) {
        uint64_t whole = 0, fraction = 0, unit = NSEC_PER_SEC;
        bool any = false;
        int r;

        if (**s != '.') {
                r = take_digits(s, &whole);
                if (r < 0)
                        return r;
                any = true;
        }
        if (**s == '.')
                for ((*s)++; **s >= '0' && **s <= '9'; (*s)++) {
                        unit /= 10;
                        if (unit == 0)
                                return -EINVAL;
                        fraction += (uint64_t) (**s - '0') * unit;
                        any = true;
                }
        if (!any)
                return -EINVAL;
        if (__builtin_mul_overflow(whole, NSEC_PER_SEC, &whole) || __builtin_add_overflow(whole, fraction, ret))
                return -ERANGE;
        return 0;
}

int parse_number(const char *s, uint64_t min, uint64_t max, uint64_t *ret) {
        uint64_t value;
        int r;

        r = take_digits(&s, &value);
        if (r < 0)
                return r;
        if (*s)
                return -EINVAL;
        if (value < min || value > max)
                return -ERANGE;
        *ret = value;
        return 0;
}

int parse_duration(const char *s, uint64_t *ret_ns) {
        static const struct {
                const char *suffix;
                uint64_t multiply, divide;
        } units[] = { { "", 1, 1 }, { "s", 1, 1 }, { "ms", 1, 1000 }, { "m", 60, 1 }, { "h", 3600, 1 } };
        uint64_t value;
        int r;

        r = take_decimal(&s, &value);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(units); i++) {
                if (strcmp(s, units[i].suffix) != 0)
                        continue;
                if (__builtin_mul_overflow(value / units[i].divide, units[i].multiply, &value))
                        return -ERANGE;
                if (value == 0 || value > DURATION_MAX)
                        return -ERANGE;
                *ret_ns = value;
                return 0;
        }
        return -EINVAL;
}

int parse_size(const char *s, uint64_t *ret_bytes) {
        static const char letters[] = "KMG";
        uint64_t value;
        int r;

        r = take_digits(&s, &value);
        if (r < 0)
                return r;
        if (*s) {
                const char *p = strchr(letters, *s);

                if (!p || s[1])
                        return -EINVAL;
                for (const char *q = letters; q <= p; q++)
                        if (__builtin_mul_overflow(value, (uint64_t) 1024, &value))
                                return -ERANGE;
        }
        *ret_bytes = value;
        return 0;
}

int parse_percent(const char *s, double *ret) {
        uint64_t value;
        int r;

        r = take_decimal(&s, &value);
        if (r < 0)
                return r;
        if (*s == '%')
                s++;
        if (*s)
                return -EINVAL;
        if (value > 100 * NSEC_PER_SEC)
                return -ERANGE;
        *ret = (double) value / (double) NSEC_PER_SEC;
        return 0;
}

/* One character of valid UTF-8: its bytes and columns. Whatever is odd counts as one byte, one column. */
static size_t character(const char *s, size_t *ret_columns) {
        unsigned char c = (unsigned char) *s;
        size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        wchar_t wide;
        int w;

        *ret_columns = 1;
        if (n == 1)
                return 1;
        wide = (wchar_t) (c & (0xff >> (n + 1)));
        for (size_t i = 1; i < n; i++) {
                if (((unsigned char) s[i] & 0xc0) != 0x80)
                        return 1;
                wide = (wchar_t) (wide << 6 | (s[i] & 0x3f));
        }
        /* Without a UTF-8 locale wcwidth() knows nothing: rather too wide than a broken line. */
        w = wcwidth(wide);
        *ret_columns = w >= 0 ? (size_t) w : wide >= 0x1100 ? 2 : 1;
        return n;
}

size_t text_width(const char *s) {
        size_t columns = 0;

        while (*s) {
                size_t w;

                s += character(s, &w);
                columns += w;
        }
        return columns;
}

/* How many bytes at the start of s fit into that many columns. */
static size_t fit_head(const char *s, size_t columns) {
        size_t bytes = 0;

        while (s[bytes]) {
                size_t w, n = character(s + bytes, &w);

                if (w > columns)
                        break;
                columns -= w;
                bytes += n;
        }
        return bytes;
}

/* Where the end of s begins that fits into that many columns. */
static const char *fit_tail(const char *s, size_t columns) {
        size_t width = text_width(s);

        while (*s && width > columns) {
                size_t w;

                s += character(s, &w);
                width -= w;
        }
        /* Nor begin with what combines with the character that was cut off. */
        while (*s) {
                size_t w, n = character(s, &w);

                if (w > 0)
                        break;
                s += n;
        }
        return s;
}

char *text_escape(const char *s) {
        size_t size = strlen(s) * 4 + 1; /* at worst every byte becomes \xNN */
        char *escaped = malloc(size);

        return escaped ? ringside_escape(escaped, size, s) : NULL;
}

char *text_fit(const char *s, size_t columns, const char *ellipsis) {
        _cleanup_free_ char *escaped = text_escape(s);
        size_t gap = text_width(ellipsis), head, bytes;
        const char *tail;
        char *fitted;

        if (!escaped)
                return NULL;
        if (text_width(escaped) <= columns)
                return TAKE_PTR(escaped);
        if (columns < gap + 2)
                return strndup(escaped, fit_head(escaped, columns));

        head = (columns - gap + 1) / 2;
        bytes = fit_head(escaped, head);
        tail = fit_tail(escaped, columns - gap - head);
        return asprintf(&fitted, "%.*s%s%s", (int) bytes, escaped, ellipsis, tail) < 0 ? NULL : fitted;
}

char *text_quote(const char *s) {
        static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
        char *quoted, *p;

        if (*s && s[strspn(s, safe)] == 0)
                return strdup(s);
        quoted = p = malloc(strlen(s) * 4 + 3); /* ' becomes '\'' */
        if (!quoted)
                return NULL;
        *p++ = '\'';
        for (; *s; s++)
                if (*s == '\'')
                        p = stpcpy(p, "'\\''");
                else
                        *p++ = *s;
        strcpy(p, "'");
        return quoted;
}

char *text_file_part(const char *path, char ret[static 65]) {
        const char *slash = strrchr(path, '/');
        size_t n = 0;

        for (const char *s = slash ? slash + 1 : path; *s && n < 64; s++)
                ret[n++] = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
                                           strchr("._+-", *s)
                                   ? *s
                                   : '_';
        if (n == 0)
                ret[n++] = '_';
        ret[n] = 0;
        return ret;
}

/* How much of s, which has no \n in its first line bytes, makes a line of room columns. */
static size_t wrap_at(const char *s, size_t line, size_t room) {
        size_t cut = MIN(line, fit_head(s, room)), space = cut, columns;

        if (cut < line && s[cut] != ' ') {
                while (space > 0 && s[space - 1] != ' ')
                        space--;
                if (space > 0)
                        cut = space;
        }
        if (cut == 0 && line > 0) /* a character wider than the room */
                cut = character(s, &columns);
        return cut;
}

static void wrap(FILE *out, const char *s, size_t indent, size_t columns, size_t first) {
        size_t room = columns > indent + 10 ? columns - indent : 10;

        while (*s) {
                size_t cut = wrap_at(s, strcspn(s, "\n"), room), shown = cut;

                while (shown > 0 && s[shown - 1] == ' ')
                        shown--;
                fprintf(out, "%*s%.*s\n", (int) first, "", (int) shown, s);
                first = indent;
                s += cut;
                s += *s == '\n' ? 1 : strspn(s, " ");
        }
}

void text_wrap(FILE *out, const char *s, size_t indent, size_t columns) {
        wrap(out, s, indent, columns, indent);
}

void text_wrap_hanging(FILE *out, const char *s, size_t indent, size_t columns) {
        if (*s)
                wrap(out, s, indent, columns, 0);
        else
                fputc('\n', out);
}

char *text_duration(char *dst, size_t size, uint64_t ns) {
        uint64_t s = ns / NSEC_PER_SEC;

        if (ns < NSEC_PER_SEC)
                snprintf(dst, size, "%" PRIu64 " ms", ns / NSEC_PER_MSEC);
        else if (s < 120)
                snprintf(dst, size, "%" PRIu64 ".%" PRIu64 " s", s, ns % NSEC_PER_SEC / (NSEC_PER_SEC / 10));
        else if (s < 7200)
                snprintf(dst, size, "%" PRIu64 " min %02" PRIu64 " s", s / 60, s % 60);
        else
                snprintf(dst, size, "%" PRIu64 " h %02" PRIu64 " min", s / 3600, s / 60 % 60);
        return dst;
}

char *text_bytes(char *dst, size_t size, uint64_t bytes) {
        static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
        double value = (double) bytes;
        size_t i = 0;

        if (bytes < 1024) {
                snprintf(dst, size, "%" PRIu64 " B", bytes);
                return dst;
        }
        for (value /= 1024; value >= 1024 && i + 1 < ELEMENTSOF(units); i++)
                value /= 1024;
        snprintf(dst, size, "%.1f %s", value, units[i]);
        return dst;
}

double text_share(uint64_t part, uint64_t whole) {
        return whole == 0 ? 0 : 100.0 * (double) part / (double) whole;
}
