/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The instructions of a function with what each took. */

#include "json.h"
#include "report.h"

/* All that was found, or what there is to say instead. */
void annotate_code_text(FILE *out, const View *view, const RingsideCode *code, const Style *style);
/* To array, as an object. 0 or -ENOMEM. */
int annotate_code_json(struct json_object *array, const RingsideCode *code);
