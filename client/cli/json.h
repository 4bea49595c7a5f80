/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* json-c with our rules: names escaped to harmless UTF-8, every failed allocation noticed. */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static inline void json_putp(struct json_object **o) {
        if (*o)
                json_object_put(*o);
}
#define _cleanup_json_ _cleanup_(json_putp)

/* Each adds value to object under key and takes it, also in failure; NULL is -ENOMEM. */
int json_add(struct json_object *object, const char *key, struct json_object *value);
int json_add_string(struct json_object *object, const char *key, const char *value);
int json_add_u64(struct json_object *object, const char *key, uint64_t value);
int json_add_bool(struct json_object *object, const char *key, bool value);
int json_append(struct json_object *array, struct json_object *value);
int json_append_string(struct json_object *array, const char *value);
/* Readable, with a newline at the end. */
int json_print(FILE *out, struct json_object *object);
/*
 * All of an object that has members, but for its end, and the key of one more: its value and the brace are for the
 * caller to write. Readable, or in one line.
 */
int json_print_begin(FILE *out, struct json_object *object, const char *key, bool readable);
