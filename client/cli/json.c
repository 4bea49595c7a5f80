/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See json.h. */

#include "json.h"

#include <string.h>

#include "text.h"
#include "util.h"

int json_add(struct json_object *object, const char *key, struct json_object *value) {
        if (!value)
                return -ENOMEM;
        if (json_object_object_add(object, key, value) < 0) {
                json_object_put(value);
                return -ENOMEM;
        }
        return 0;
}

int json_add_string(struct json_object *object, const char *key, const char *value) {
        _cleanup_free_ char *escaped = text_escape(value);

        return json_add(object, key, escaped ? json_object_new_string(escaped) : NULL);
}

int json_add_u64(struct json_object *object, const char *key, uint64_t value) {
        return json_add(object, key, json_object_new_uint64(value));
}

int json_add_bool(struct json_object *object, const char *key, bool value) {
        return json_add(object, key, json_object_new_boolean(value));
}

int json_append(struct json_object *array, struct json_object *value) {
        if (!value)
                return -ENOMEM;
        if (json_object_array_add(array, value) < 0) {
                json_object_put(value);
                return -ENOMEM;
        }
        return 0;
}

int json_append_string(struct json_object *array, const char *value) {
        _cleanup_free_ char *escaped = text_escape(value);

        return json_append(array, escaped ? json_object_new_string(escaped) : NULL);
}

#define READABLE (JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED)

int json_print(FILE *out, struct json_object *object) {
        const char *text = json_object_to_json_string_ext(object, READABLE | JSON_C_TO_STRING_NOSLASHESCAPE);

        if (!text)
                return -ENOMEM;
        fprintf(out, "%s\n", text);
        return 0;
}

int json_print_begin(FILE *out, struct json_object *object, const char *key, bool readable) {
        const char *brace, *text = json_object_to_json_string_ext(object, (readable ? READABLE : JSON_C_TO_STRING_PLAIN) |
                                                                                  JSON_C_TO_STRING_NOSLASHESCAPE);

        if (!text)
                return -ENOMEM;
        brace = strrchr(text, '}');
        while (brace[-1] == '\n' || brace[-1] == ' ')
                brace--;
        fprintf(out, readable ? "%.*s,\n  \"%s\": " : "%.*s,\"%s\":", (int) (brace - text), text, key);
        return 0;
}
