/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Addresses are few and debug information is much. So each unit is asked for its ranges, and only those that have one of
 * the addresses are looked into; of these, all functions are listed once, those inside of other functions only where an
 * address is in none that was listed, and only those with an address are walked down to what is inlined there. dwarf_getscopes() would go through the whole unit for each address, and dwarf_addrdie() needs
 * .debug_aranges, which clang and rustc do not write.
 */

#include "debug-info.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* Entries, ranges and the like that are looked at in one file: some minutes' worth. */
#define WORK_MAX (400U << 20)
/* How deep functions lie in namespaces and types, and blocks in functions. */
#define NESTING_MAX 64U

typedef struct Unit {
        Dwarf_CU *cu;
        bool skeleton;     /* the rest is in a .dwo file */
        size_t first, end; /* its addresses are among these */
} Unit;

typedef struct Reader {
        const DebugInfoRequest *request;
        DebugLines *lines;
        Dwarf *dwarf, *alt;
        Dwfl *dwfl; /* whose dwarf is; NULL: it is ours */
        uint64_t work;
        Unit *units;
        size_t n_units, n_units_allocated;
        bool any_unit; /* also such as have none of the addresses */
        uint32_t *unit_of; /* by address: number + 1 */
        /* Of the unit at hand. */
        const char *directory; /* where it was compiled; NULL: not known */
        Dwarf_Die *functions;
        size_t n_functions, n_functions_allocated;
        uint32_t *function_of; /* by address: number + 1 */
        size_t first, end;     /* of what was claimed last: the addresses are among these */
} Reader;

/* Whether something goes on for too long. */
static int work(Reader *reader, uint64_t n) {
        reader->work += n;
        return reader->work > WORK_MAX ? -EFBIG : 0;
}

/* The number of the first address from `from` on, which may be all of them. */
static size_t first_address(const Reader *reader, uint64_t from) {
        size_t low = 0, high = reader->request->n_addresses;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (reader->request->addresses[middle] < from)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/*
 * Notes number for all addresses that die covers and that have none yet; 1: there are some. What begins at 0 is code that
 * the linker has thrown away: of its ranges it has left only the lengths.
 */
static int claim(Reader *reader, Dwarf_Die *die, uint32_t *owner_of, uint32_t number) {
        Dwarf_Addr base, low, high;
        ptrdiff_t offset = 0;
        int found = 0, r;

        reader->first = reader->request->n_addresses;
        reader->end = 0;
        while ((offset = dwarf_ranges(die, offset, &base, &low, &high)) > 0) {
                r = work(reader, 1);
                if (r < 0)
                        return r;
                if (low == 0)
                        continue;
                for (size_t i = first_address(reader, low); i < reader->request->n_addresses; i++) {
                        if (reader->request->addresses[i] >= high)
                                break;
                        r = work(reader, 1);
                        if (r < 0)
                                return r;
                        if (owner_of[i] != 0)
                                continue;
                        owner_of[i] = number;
                        reader->first = MIN(reader->first, i);
                        reader->end = MAX(reader->end, i + 1);
                        found = 1;
                }
        }
        return found;
}

/* ---- units ---- */

static int find_units(Reader *reader) {
        Dwarf_CU *cu = NULL;
        Dwarf_Die die;
        uint8_t type;
        int r;

        while (dwarf_get_units(reader->dwarf, cu, &cu, NULL, &type, &die, NULL) == 0) {
                r = work(reader, 1);
                if (r < 0)
                        return r;
                reader->any_unit = true;
                if (type != DW_UT_compile && type != DW_UT_skeleton)
                        continue;
                if (reader->n_units == reader->n_units_allocated) {
                        size_t allocated = MAX(reader->n_units_allocated * 2, (size_t) 64);
                        Unit *units = reallocarray(reader->units, allocated, sizeof(*units));

                        if (!units)
                                return -ENOMEM;
                        reader->units = units;
                        reader->n_units_allocated = allocated;
                }
                r = claim(reader, &die, reader->unit_of, (uint32_t) reader->n_units + 1);
                if (r < 0)
                        return r;
                if (r > 0)
                        reader->units[reader->n_units++] = (Unit){ cu, type == DW_UT_skeleton, reader->first, reader->end };
        }
        return 0;
}

static bool is_regular(const char *directory, const char *name) {
        char path[PATH_MAX];
        struct stat st;

        if (snprintf(path, sizeof(path), "%s%s%s", directory, *directory ? "/" : "", name) >= (int) sizeof(path))
                return false;
        return stat(path, &st) < 0 ? errno == ENOENT : S_ISREG(st.st_mode);
}

static const char *string_of(Dwarf_Die *die, unsigned attribute) {
        Dwarf_Attribute a;

        return dwarf_formstring(dwarf_attr(die, attribute, &a));
}

/* libdw opens it by name; what is no file is better left alone. */
static bool may_open_split(Dwarf_Die *die) {
        const char *name = string_of(die, DW_AT_dwo_name) ?: string_of(die, DW_AT_GNU_dwo_name);
        const char *directory = string_of(die, DW_AT_comp_dir);

        return name && is_regular("", name) && (!directory || name[0] == '/' || is_regular(directory, name));
}

/* Where libdw looks for the rest of a unit: beside the file, and where it was compiled. */
static int wish_for_rest(Reader *reader, const Unit *unit) {
        const char *name, *directory;
        char path[PATH_MAX];
        Dwarf_Die die;
        int r;

        if (dwarf_cu_info(unit->cu, NULL, NULL, &die, NULL, NULL, NULL, NULL) != 0 || !may_open_split(&die))
                return 0;
        name = string_of(&die, DW_AT_dwo_name) ?: string_of(&die, DW_AT_GNU_dwo_name);
        directory = string_of(&die, DW_AT_comp_dir);
        r = debug_lines_add_wish(reader->lines, name);
        if (r < 0 || !directory || name[0] == '/' ||
            snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int) sizeof(path))
                return r;
        return debug_lines_add_wish(reader->lines, path);
}

static int wish_for_files(Reader *reader) {
        int r = 0;

        for (size_t i = 0; i < reader->n_units && r >= 0; i++)
                if (reader->units[i].skeleton)
                        r = wish_for_rest(reader, &reader->units[i]);
        return r >= 0 && reader->lines->n_wishes > 0 ? -EAGAIN : r;
}

/* *ret_lines: the entry that lines belong to; *ret_code: that which functions do. 1; 0: there are no functions; -1: nothing. */
static int open_unit(const Unit *unit, Dwarf_Die *ret_lines, Dwarf_Die *ret_code) {
        Dwarf_Die split = {};

        if (dwarf_cu_info(unit->cu, NULL, NULL, ret_lines, NULL, NULL, NULL, NULL) != 0)
                return -1;
        *ret_code = *ret_lines;
        if (!unit->skeleton)
                return 1;
        if (!may_open_split(ret_lines) ||
            dwarf_cu_info(unit->cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) != 0 || !split.addr)
                return 0;
        *ret_code = split;
        return 1;
}

/* ---- functions ---- */

static int add_function(Reader *reader, Dwarf_Die *die) {
        int r;

        if (reader->n_functions == reader->n_functions_allocated) {
                size_t allocated = MAX(reader->n_functions_allocated * 2, (size_t) 64);
                Dwarf_Die *functions = reallocarray(reader->functions, allocated, sizeof(*functions));

                if (!functions)
                        return -ENOMEM;
                reader->functions = functions;
                reader->n_functions_allocated = allocated;
        }
        r = claim(reader, die, reader->function_of, (uint32_t) reader->n_functions + 1);
        if (r > 0)
                reader->functions[reader->n_functions++] = *die;
        return MIN(r, 0);
}

static bool may_hold_functions(int tag, bool in_functions) {
        if (in_functions && (tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine))
                return true;
        return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type || tag == DW_TAG_class_type ||
               tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type;
}

/* in_functions: also those that are written inside of others. */
static int find_functions(Reader *reader, Dwarf_Die *parent, bool in_functions, unsigned nesting) {
        Dwarf_Die die;
        int r, more;

        if (nesting > NESTING_MAX)
                return 0;
        for (more = dwarf_child(parent, &die); more == 0; more = dwarf_siblingof(&die, &die)) {
                int tag = dwarf_tag(&die);

                r = work(reader, 1);
                if (r >= 0 && tag == DW_TAG_subprogram)
                        r = add_function(reader, &die);
                if (r >= 0 && may_hold_functions(tag, in_functions))
                        r = find_functions(reader, &die, in_functions, nesting + 1);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- what is at an address ---- */

/* What is inlined into function at pc, outermost first. */
static int find_inlined(Reader *reader, const Dwarf_Die *function, uint64_t pc, Dwarf_Die *ret, size_t *ret_n) {
        Dwarf_Die scope = *function;
        size_t n = 0;

        for (unsigned nesting = 0; nesting < 2 * NESTING_MAX && n + 1 < DEBUG_LINES_DEPTH_MAX; nesting++) {
                bool found = false;
                Dwarf_Die die;
                int r;

                for (int more = dwarf_child(&scope, &die); more == 0; more = dwarf_siblingof(&die, &die)) {
                        int tag = dwarf_tag(&die);

                        r = work(reader, 1);
                        if (r < 0)
                                return r;
                        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block && tag != DW_TAG_try_block &&
                            tag != DW_TAG_catch_block)
                                continue;
                        found = dwarf_haspc(&die, pc) > 0;
                        if (!found)
                                continue;
                        if (tag == DW_TAG_inlined_subroutine)
                                ret[n++] = die;
                        break;
                }
                if (!found)
                        break;
                scope = die;
        }
        *ret_n = n;
        return 0;
}

/* As it is linked by, which says more than its own name. */
static const char *name_of(Dwarf_Die *die) {
        Dwarf_Attribute a;

        return dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &a))
                       ?: dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &a))
                       ?: dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &a));
}

static uint32_t number_of(Dwarf_Die *die, unsigned attribute) {
        Dwarf_Attribute a;
        Dwarf_Word value;

        if (dwarf_formudata(dwarf_attr(die, attribute, &a), &value) != 0 || value > INT32_MAX)
                return 0;
        return (uint32_t) value;
}

/* Whole, where it is known from which directory it begins. */
static int add_source(Reader *reader, const char *path, uint32_t *ret) {
        char whole[PATH_MAX];

        if (path && path[0] != '/' && reader->directory && reader->directory[0] == '/' &&
            snprintf(whole, sizeof(whole), "%s/%s", reader->directory, path) < (int) sizeof(whole))
                path = whole;
        return debug_lines_add_string(reader->lines, path, ret);
}

/* From where an inlined function is called. */
static int add_call_site(Reader *reader, Dwarf_Die *unit, Dwarf_Die *inlined, DebugCode *code) {
        Dwarf_Files *files;
        Dwarf_Attribute a;
        size_t n;

        code->line = number_of(inlined, DW_AT_call_line);
        if (!dwarf_attr(inlined, DW_AT_call_file, &a) || dwarf_getsrcfiles(unit, &files, &n) != 0)
                return 0;
        return add_source(reader, dwarf_filesrc(files, number_of(inlined, DW_AT_call_file), NULL, NULL), &code->source);
}

static int read_line(Reader *reader, Dwarf_Line *line, DebugCode *code) {
        int number;

        if (!line || dwarf_lineno(line, &number) != 0 || number < 0)
                return 0;
        code->line = (uint32_t) number; /* 0: code that no line stands for */
        return add_source(reader, dwarf_linesrc(line, NULL, NULL), &code->source);
}

static int add_line(Reader *reader, Dwarf_Die *unit, uint64_t pc, DebugCode *code) {
        return read_line(reader, dwarf_getsrc_die(unit, pc), code);
}

static int resolve(Reader *reader, Dwarf_Die *lines, Dwarf_Die *unit, size_t address) {
        Dwarf_Die scopes[DEBUG_LINES_DEPTH_MAX]; /* the function, and what is inlined, outermost first */
        uint64_t pc = reader->request->addresses[address];
        uint32_t function = reader->function_of[address], number = 0;
        size_t n = 1;
        int r;

        if (function > 0) {
                scopes[0] = reader->functions[function - 1];
                r = find_inlined(reader, &scopes[0], pc, scopes + 1, &n);
                if (r < 0)
                        return r;
                n++;
        }
        for (size_t i = 0; i < n; i++) {
                DebugCode code = { .caller = number };

                r = function > 0 ? debug_lines_add_string(reader->lines, name_of(&scopes[i]), &code.routine) : 0;
                if (r >= 0)
                        r = i + 1 < n ? add_call_site(reader, unit, &scopes[i + 1], &code) :
                                        add_line(reader, lines, pc, &code);
                if (r < 0)
                        return r;
                if (n == 1 && code.routine == 0 && code.source == 0)
                        return 0;
                r = debug_lines_add_code(reader->lines, &code, &number);
                if (r < 0)
                        return r;
        }
        debug_lines_set(reader->lines, address, number);
        return 0;
}

static bool lacks_functions(const Reader *reader, size_t index) {
        const Unit *u = &reader->units[index];

        for (size_t i = u->first; i < u->end; i++)
                if (reader->unit_of[i] == index + 1 && reader->function_of[i] == 0)
                        return true;
        return false;
}

static int read_unit(Reader *reader, size_t index) {
        const Unit *u = &reader->units[index];
        Dwarf_Die lines, unit;
        int opened = open_unit(u, &lines, &unit), r = 0;

        if (opened < 0)
                return 0;
        reader->n_functions = 0;
        memset(reader->function_of + u->first, 0, (u->end - u->first) * sizeof(uint32_t));
        if (opened > 0)
                r = find_functions(reader, &unit, /* in_functions= */ false, 0);
        else
                reader->lines->lacks_files = true;
        /* Compilers write a lambda, and what is made of it, inside of the function that has it; nearly all of a unit is there. */
        if (opened > 0 && r >= 0 && lacks_functions(reader, index))
                r = find_functions(reader, &unit, /* in_functions= */ true, 0);
        reader->directory = string_of(&lines, DW_AT_comp_dir);
        for (size_t i = u->first; i < u->end && r >= 0; i++)
                if (reader->unit_of[i] == index + 1)
                        r = resolve(reader, &lines, &unit, i);
        return r;
}

/* ---- line tables alone ---- */

/*
 * Lines of a table are sorted by their addresses, and where one function's end and another's begin cannot be told. Those of
 * functions that the linker has thrown away begin at 0. Where they reach into the addresses of code they lie among lines that
 * are right. Returns the first that is, or n.
 */
static size_t first_line(const Reader *reader, Dwarf_Lines *lines, size_t n) {
        bool ended = true;
        Dwarf_Addr at;
        size_t i = 0;

        if (n == 0 || dwarf_lineaddr(dwarf_onesrcline(lines, 0), &at) != 0 || at != 0)
                return 0;
        for (; i < n; i++) {
                Dwarf_Line *line = dwarf_onesrcline(lines, i);

                if (dwarf_lineaddr(line, &at) != 0 || at >= reader->request->code_start)
                        break;
                (void) dwarf_lineendsequence(line, &ended);
        }
        return ended ? i : n;
}

static int add_table_line(Reader *reader, Dwarf_Line *line, size_t address) {
        DebugCode code = {};
        uint32_t number;
        int r;

        if (reader->lines->at[address] != 0)
                return 0;
        r = read_line(reader, line, &code);
        if (r < 0 || code.source == 0)
                return r;
        r = debug_lines_add_code(reader->lines, &code, &number);
        if (r >= 0)
                debug_lines_set(reader->lines, address, number);
        return r;
}

static int read_table(Reader *reader, Dwarf_Lines *lines, size_t n) {
        for (size_t i = first_line(reader, lines, n); i + 1 < n; i++) {
                Dwarf_Line *line = dwarf_onesrcline(lines, i);
                Dwarf_Addr low, high;
                bool ends;
                int r;

                r = work(reader, 1);
                if (r < 0)
                        return r;
                if (dwarf_lineendsequence(line, &ends) != 0 || ends || dwarf_lineaddr(line, &low) != 0 ||
                    dwarf_lineaddr(dwarf_onesrcline(lines, i + 1), &high) != 0)
                        continue;
                for (size_t k = first_address(reader, low); k < reader->request->n_addresses; k++) {
                        if (reader->request->addresses[k] >= high)
                                break;
                        r = work(reader, 1);
                        if (r >= 0)
                                r = add_table_line(reader, line, k);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

/* What is left where somebody has kept .debug_line alone: that says no function's name, and not where it was compiled. */
static int read_tables(Reader *reader) {
        Dwarf_CU *cu = NULL;
        Dwarf_Off offset = 0;
        Dwarf_Lines *lines;
        size_t n;

        reader->directory = NULL;
        while (dwarf_next_lines(reader->dwarf, offset, &offset, &cu, NULL, NULL, &lines, &n) == 0) {
                int r = read_table(reader, lines, n);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- a file ---- */

/* The file is there, and there is no other. */
static int find_elf(_unused_ Dwfl_Module *module, void **userdata, _unused_ const char *name, _unused_ Dwarf_Addr base,
                    _unused_ char **file_name, Elf **elf) {
        const DebugInfoRequest *request = *userdata;

        *elf = elf_begin(request->fd, ELF_C_READ_MMAP_PRIVATE, NULL);
        return -1;
}

static int find_no_debuginfo(_unused_ Dwfl_Module *module, _unused_ void **userdata, _unused_ const char *name,
                             _unused_ Dwarf_Addr base, _unused_ const char *file_name, _unused_ const char *link,
                             _unused_ GElf_Word crc, _unused_ char **debug_file_name) {
        return -1;
}

static int place_section(_unused_ Dwfl_Module *module, _unused_ void **userdata, _unused_ const char *name,
                         _unused_ Dwarf_Addr base, _unused_ const char *section_name, GElf_Word section,
                         _unused_ const GElf_Shdr *header, Dwarf_Addr *ret) {
        *ret = DEBUG_INFO_SECTION_ADDRESS(section, 0);
        return 0;
}

/* What it says of addresses becomes something when it is linked, as libdwfl does it for a module at some place. */
static int open_relocatable(Reader *reader) {
        static const Dwfl_Callbacks callbacks = {
                .find_elf = find_elf,
                .find_debuginfo = find_no_debuginfo,
                .section_address = place_section,
        };
        Dwfl_Module *module;
        Dwarf_Addr bias;
        void **userdata;

        (void) elf_version(EV_CURRENT);
        reader->dwfl = dwfl_begin(&callbacks);
        if (!reader->dwfl)
                return -ENOMEM;
        dwfl_report_begin(reader->dwfl);
        module = dwfl_report_module(reader->dwfl, "module", DEBUG_INFO_SECTION_ADDRESS(0, 0), UINT64_MAX);
        if (!module)
                return -EBADMSG;
        (void) dwfl_module_info(module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
        *userdata = (void *) reader->request;
        (void) dwfl_report_end(reader->dwfl, NULL, NULL);
        reader->dwarf = dwfl_module_getdwarf(module, &bias);
        return reader->dwarf && bias == 0 ? 0 : -EBADMSG;
}

static int reader_open(Reader *reader, const DebugInfoRequest *request, DebugLines *lines) {
        size_t n = MAX(request->n_addresses, (size_t) 1);

        *reader = (Reader){ .request = request, .lines = lines };
        reader->unit_of = calloc(n, sizeof(uint32_t));
        reader->function_of = calloc(n, sizeof(uint32_t));
        if (!reader->unit_of || !reader->function_of)
                return -ENOMEM;
        if (request->relocatable) {
                int r = open_relocatable(reader);

                if (r < 0)
                        return r;
        } else
                reader->dwarf = dwarf_begin(request->fd, DWARF_C_READ);
        if (!reader->dwarf)
                return -EBADMSG;
        if (request->alt_fd < 0)
                return 0;
        reader->alt = dwarf_begin(request->alt_fd, DWARF_C_READ);
        if (!reader->alt)
                return -EBADMSG;
        dwarf_setalt(reader->dwarf, reader->alt);
        return 0;
}

static void reader_done(Reader *reader) {
        if (reader->dwfl)
                dwfl_end(reader->dwfl);
        else
                (void) dwarf_end(reader->dwarf);
        (void) dwarf_end(reader->alt);
        free(reader->units);
        free(reader->unit_of);
        free(reader->functions);
        free(reader->function_of);
}

int debug_info_read(const DebugInfoRequest *request, DebugLines *lines, DebugInfoFunc progress, void *userdata) {
        Reader reader;
        int r;

        r = reader_open(&reader, request, lines);
        if (r >= 0)
                r = find_units(&reader);
        if (r >= 0 && request->ask_first)
                r = wish_for_files(&reader);
        if (r == -EAGAIN && progress && progress(lines, userdata) < 0)
                r = -EPIPE;
        if (r >= 0 && !reader.any_unit) {
                lines->lacks_files = true;
                r = read_tables(&reader);
                if (r >= 0 && progress)
                        r = progress(lines, userdata);
                r = r < 0 ? r : -ENODATA;
        }
        for (size_t i = 0; i < reader.n_units && r >= 0; i++) {
                r = read_unit(&reader, i);
                if (r >= 0 && progress)
                        r = progress(lines, userdata);
        }
        reader_done(&reader);
        return r;
}
