/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "annotate-code.h"

#include <inttypes.h>
#include <string.h>

#include "text.h"

/* Instructions that are shown around each that took something. */
#define CONTEXT 3U
#define NUMBER_COLUMNS 32U /* " 70.0 %  100.0 %          1139  " */

/* ---- for people ---- */

static void print_instruction(FILE *out, const View *view, const RingsideInstruction *instruction, const Style *style) {
        _cleanup_free_ char *fitted = text_fit(instruction->text, style->columns - NUMBER_COLUMNS, style->ellipsis);

        if (instruction->total_samples > 0)
                fprintf(out, "%5.1f %%  %5.1f %%", report_share(view, instruction->self_samples, instruction->self_weight),
                        report_share(view, instruction->total_samples, instruction->total_weight));
        else
                fprintf(out, "%16s", "");
        fprintf(out, "%14" PRIx64 "%s%s\n", instruction->address, fitted && *fitted ? "  " : "", fitted ?: "");
}

/* Whether one that took something is near. */
static bool is_shown(const RingsideCode *code, size_t i) {
        size_t first = i > CONTEXT ? i - CONTEXT : 0, last = MIN(i + CONTEXT, code->n_instructions - 1);

        for (size_t k = first; k <= last; k++)
                if (code->instructions[k].total_samples > 0)
                        return true;
        return false;
}

static void print_instructions(FILE *out, const View *view, const RingsideCode *code, const Style *style) {
        bool left_out = false, printed = false;

        fprintf(out, "%s   self    total       address%s\n", style->dim, style->reset);
        for (size_t i = 0; i < code->n_instructions; i++) {
                if (!is_shown(code, i)) {
                        left_out = true;
                        continue;
                }
                if (printed && left_out)
                        fprintf(out, "%30s\n", "...");
                print_instruction(out, view, &code->instructions[i], style);
                left_out = false;
                printed = true;
        }
}

void annotate_code_text(FILE *out, const View *view, const RingsideCode *code, const Style *style) {
        _cleanup_free_ char *line = NULL, *name = NULL, *path = NULL;
        const char *slash = strrchr(code->path, '/');

        if (asprintf(&line, "%s  %s", code->name, slash && slash[1] ? slash + 1 : code->path) < 0)
                line = NULL;
        name = text_fit(line ?: code->name, style->columns, style->ellipsis);
        path = text_fit(code->path, style->columns, style->ellipsis);
        fprintf(out, "%s%s%s\n%s\n", style->bold, name ?: "", style->reset, path ?: "");
        if (code->error.code == 0) {
                print_instructions(out, view, code, style);
                return;
        }
        text_wrap(out, code->error.text, 0, style->columns);
        if (*code->error.hint)
                text_wrap(out, code->error.hint, 0, style->columns);
}

/* ---- for programs ---- */

#define TRY(expression)                                                                                                \
        do {                                                                                                           \
                int try_result_ = (expression);                                                                        \
                if (try_result_ < 0)                                                                                   \
                        return try_result_;                                                                            \
        } while (false)

static int add_instruction(struct json_object *array, const RingsideInstruction *instruction) {
        struct json_object *o = json_object_new_object();

        TRY(json_append(array, o));
        TRY(json_add_u64(o, "address", instruction->address));
        TRY(json_add_string(o, "text", instruction->text));
        TRY(json_add_u64(o, "self_samples", instruction->self_samples));
        TRY(json_add_u64(o, "total_samples", instruction->total_samples));
        TRY(json_add_u64(o, "self_weight", instruction->self_weight));
        return json_add_u64(o, "total_weight", instruction->total_weight);
}

int annotate_code_json(struct json_object *array, const RingsideCode *code) {
        struct json_object *o = json_object_new_object(), *instructions = json_object_new_array();

        if (!o) {
                json_object_put(instructions);
                return -ENOMEM;
        }
        TRY(json_append(array, o));
        TRY(json_add(o, "instructions", instructions));
        TRY(json_add_string(o, "name", code->name));
        TRY(json_add_string(o, "path", code->path));
        if (code->end > 0) {
                TRY(json_add_u64(o, "start", code->start));
                TRY(json_add_u64(o, "end", code->end));
        }
        TRY(json_add_u64(o, "total_samples", code->total_samples));
        TRY(json_add_u64(o, "total_weight", code->total_weight));
        if (code->error.code != 0)
                TRY(json_add_string(o, "error", code->error.text));
        for (size_t i = 0; i < code->n_instructions; i++)
                TRY(add_instruction(instructions, &code->instructions[i]));
        return 0;
}
