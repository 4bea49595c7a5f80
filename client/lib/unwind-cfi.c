/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Entries are found in one pass, and their programs are run later, in the order of addresses.
 */

#include "unwind-cfi.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "cfi-cursor.h"
#include "cfi-expression.h"
#include "cfi-rule.h"
#include "util.h"

#define REMEMBERED_MAX 32U
#define AUGMENTATION_MAX 16U
/* Each byte is looked at a few times: when entries are found, when they are run, and common ones again and again. */
#define WORK_FACTOR 8U
/* That much of a PLT may be described by a few bytes. */
#define WORK_MIN (1U << 20)

#define PLT_FROM 11 /* as RS_CFA_PLT has it */

#ifndef DW_CFA_AARCH64_negate_ra_state
#define DW_CFA_AARCH64_negate_ra_state 0x2d
#endif

static const CfiMachine machine_x86_64 = { .fp = 6, .sp = 7, .ra = 16, .n_regs = 16 };
static const CfiMachine machine_aarch64 = { .fp = 29, .sp = 31, .ra = 30, .n_regs = 32, .is_aarch64 = true };

const CfiMachine *cfi_machine(unsigned e_machine) {
        switch (e_machine) {
        case EM_X86_64:
                return &machine_x86_64;
        case EM_AARCH64:
                return &machine_aarch64;
        default:
                return NULL;
        }
}

/* false: not one that is read here. */
static bool take_pointer(Cursor *c, uint8_t encoding, uint64_t address, uint64_t data_base, uint64_t *ret) {
        uint64_t value;

        switch (encoding & 0x0f) {
        case DW_EH_PE_absptr:
        case DW_EH_PE_udata8:
        case DW_EH_PE_sdata8:
                value = cursor_take_unsigned(c, 8);
                break;
        case DW_EH_PE_udata4:
                value = cursor_take_unsigned(c, 4);
                break;
        case DW_EH_PE_sdata4:
                value = (uint64_t) cursor_take_signed(c, 4);
                break;
        case DW_EH_PE_udata2:
                value = cursor_take_unsigned(c, 2);
                break;
        case DW_EH_PE_sdata2:
                value = (uint64_t) cursor_take_signed(c, 2);
                break;
        case DW_EH_PE_uleb128:
                value = cursor_take_uleb(c);
                break;
        case DW_EH_PE_sleb128:
                value = (uint64_t) cursor_take_sleb(c);
                break;
        default:
                return false;
        }
        switch (encoding & 0xf0) {
        case DW_EH_PE_absptr:
                break;
        case DW_EH_PE_pcrel:
                value += address;
                break;
        case DW_EH_PE_datarel:
                if (data_base == 0)
                        return false;
                value += data_base;
                break;
        default: /* relative to what only a loader knows, or found by way of memory */
                return false;
        }
        *ret = value;
        return !c->failed;
}

size_t cfi_read_pointer(const uint8_t *data, size_t size, uint8_t encoding, uint64_t address, uint64_t data_base,
                        uint64_t *ret) {
        Cursor c = { .next = data, .left = size };

        return take_pointer(&c, encoding, address, data_base, ret) ? size - c.left : 0;
}

static int spend(CfiReader *reader, size_t n) {
        if (n > reader->work)
                return -EFBIG;
        reader->work -= n;
        return 0;
}

/* Programs. */

typedef struct Run {
        CfiReader *reader;
        const CfiCommon *common;
        const CfiState *initial; /* NULL: this makes it */
        CfiState state;
        CfiState remembered[REMEMBERED_MAX];
        unsigned n_remembered;
        uint64_t location;
} Run;

static CfiPlace *find_place(Run *run, uint64_t reg, const CfiState *of, const CfiPlace **ret_initial) {
        const CfiMachine *machine = run->reader->machine;

        if (reg != machine->fp && reg != machine->ra)
                return NULL;
        if (ret_initial)
                *ret_initial = reg == machine->fp ? &of->fp : &of->ra;
        return reg == machine->fp ? &run->state.fp : &run->state.ra;
}

/* Of a register in CfiState.others; 0: it is not one of these. */
static uint32_t bit_of_other(const CfiMachine *machine, uint64_t reg) {
        if (reg >= machine->n_regs || reg == machine->fp || reg == machine->sp || reg == machine->ra)
                return 0;
        return UINT32_C(1) << reg;
}

static void set_place(Run *run, uint64_t reg, CfiPlace place) {
        CfiPlace *p = find_place(run, reg, NULL, NULL);
        const uint32_t other = bit_of_other(run->reader->machine, reg);

        if (p)
                *p = place;
        if (place.how == CFI_SAME)
                run->state.others &= ~other;
        else
                run->state.others |= other;
}

static bool set_saved(Run *run, uint64_t reg, int64_t factored) {
        CfiPlace place = { .how = CFI_AT_CFA };

        if (__builtin_mul_overflow(factored, run->common->data_factor, &place.offset))
                return false;
        set_place(run, reg, place);
        return true;
}

static bool restore(Run *run, uint64_t reg) {
        const uint32_t other = bit_of_other(run->reader->machine, reg);
        const CfiPlace *initial;
        CfiPlace *place;

        if (!run->initial)
                return false;
        place = find_place(run, reg, run->initial, &initial);
        if (place)
                *place = *initial;
        run->state.others = (run->state.others & ~other) | (run->initial->others & other);
        return true;
}

static bool set_cfa(Run *run, uint64_t reg, int64_t offset) {
        run->state.cfa = reg < run->reader->machine->n_regs ? RS_CFA_REG : RS_CFA_UNKNOWN;
        run->state.cfa_reg = (uint8_t) (reg & 0xff);
        run->state.cfa_offset = offset;
        return true;
}

static bool set_cfa_factored(Run *run, uint64_t reg, int64_t offset) {
        return !__builtin_mul_overflow(offset, run->common->data_factor, &offset) && set_cfa(run, reg, offset);
}

static bool advance(Run *run, uint64_t delta) {
        return !__builtin_mul_overflow(delta, run->common->code_factor, &delta) &&
               !__builtin_add_overflow(run->location, delta, &run->location);
}

static bool set_location(Run *run, Cursor *c) {
        const CfiReader *reader = run->reader;
        uint64_t address, here = reader->address + (uint64_t) (c->next - reader->data);

        if (!take_pointer(c, run->common->encoding, here, reader->data_base, &address) || address < run->location)
                return false;
        run->location = address;
        return true;
}

static bool remember(Run *run) {
        if (run->n_remembered == REMEMBERED_MAX)
                return false;
        run->remembered[run->n_remembered++] = run->state;
        return true;
}

static bool recall(Run *run) {
        if (run->n_remembered == 0)
                return false;
        run->state = run->remembered[--run->n_remembered];
        return true;
}

/* One instruction; false: it cannot be followed. */
static bool execute(Run *run, Cursor *c) {
        const CfiMachine *machine = run->reader->machine;
        const bool by_register = run->state.cfa == RS_CFA_REG;
        uint8_t op = cursor_take_byte(c);
        uint64_t reg;

        switch (op & 0xc0) {
        case DW_CFA_advance_loc:
                return advance(run, op & 0x3f);
        case DW_CFA_offset:
                return set_saved(run, op & 0x3f, (int64_t) cursor_take_uleb(c));
        case DW_CFA_restore:
                return restore(run, op & 0x3f);
        default:
                break;
        }
        switch (op) {
        case DW_CFA_nop:
                return true;
        case DW_CFA_set_loc:
                return set_location(run, c);
        case DW_CFA_advance_loc1:
                return advance(run, cursor_take_unsigned(c, 1));
        case DW_CFA_advance_loc2:
                return advance(run, cursor_take_unsigned(c, 2));
        case DW_CFA_advance_loc4:
                return advance(run, cursor_take_unsigned(c, 4));
        case DW_CFA_offset_extended:
                reg = cursor_take_uleb(c);
                return set_saved(run, reg, (int64_t) cursor_take_uleb(c));
        case DW_CFA_offset_extended_sf:
                reg = cursor_take_uleb(c);
                return set_saved(run, reg, cursor_take_sleb(c));
        case DW_CFA_GNU_negative_offset_extended:
                reg = cursor_take_uleb(c);
                return set_saved(run, reg, (int64_t) -cursor_take_uleb(c));
        case DW_CFA_restore_extended:
                return restore(run, cursor_take_uleb(c));
        case DW_CFA_undefined:
                set_place(run, cursor_take_uleb(c), (CfiPlace){ .how = CFI_UNDEFINED });
                return true;
        case DW_CFA_same_value:
                set_place(run, cursor_take_uleb(c), (CfiPlace){ .how = CFI_SAME });
                return true;
        case DW_CFA_register: {
                uint64_t to;

                reg = cursor_take_uleb(c);
                to = cursor_take_uleb(c);
                set_place(run, reg, (CfiPlace){ .how = reg == to ? CFI_SAME : CFI_OTHER });
                return true;
        }
        case DW_CFA_remember_state:
                return remember(run);
        case DW_CFA_restore_state:
                return recall(run);
        case DW_CFA_def_cfa: {
                uint64_t offset;

                reg = cursor_take_uleb(c);
                offset = cursor_take_uleb(c);
                return offset <= INT64_MAX && set_cfa(run, reg, (int64_t) offset);
        }
        case DW_CFA_def_cfa_sf:
                reg = cursor_take_uleb(c);
                return set_cfa_factored(run, reg, cursor_take_sleb(c));
        case DW_CFA_def_cfa_register:
                return by_register && set_cfa(run, cursor_take_uleb(c), run->state.cfa_offset);
        case DW_CFA_def_cfa_offset: {
                uint64_t offset = cursor_take_uleb(c);

                return by_register && offset <= INT64_MAX && set_cfa(run, run->state.cfa_reg, (int64_t) offset);
        }
        case DW_CFA_def_cfa_offset_sf:
                return by_register && set_cfa_factored(run, run->state.cfa_reg, cursor_take_sleb(c));
        case DW_CFA_def_cfa_expression:
                cfi_set_by_expression(machine, &run->state, cursor_take_block(c));
                return true;
        case DW_CFA_expression:
                reg = cursor_take_uleb(c);
                set_place(run, reg, cfi_place_by_expression(machine, cursor_take_block(c)));
                return true;
        case DW_CFA_val_expression:
                reg = cursor_take_uleb(c);
                (void) cursor_take_block(c);
                set_place(run, reg, (CfiPlace){ .how = CFI_OTHER });
                return true;
        case DW_CFA_val_offset:
        case DW_CFA_val_offset_sf:
                reg = cursor_take_uleb(c);
                (void) cursor_take_uleb(c);
                set_place(run, reg, (CfiPlace){ .how = CFI_OTHER });
                return true;
        case DW_CFA_GNU_args_size: /* of interest to who throws */
                (void) cursor_take_uleb(c);
                return true;
        case DW_CFA_AARCH64_negate_ra_state:
                run->state.is_signed = !run->state.is_signed;
                return machine->is_aarch64;
        default:
                return false;
        }
}

/* Most instructions are these, with numbers of one byte. false: it is another, and nothing was done. */
static inline bool execute_frequent(Run *run, Cursor *c) {
        const uint8_t op = *c->next;

        if (c->left < 2 || c->next[1] >= 0x80)
                return false;
        if (op == DW_CFA_def_cfa_offset && run->state.cfa == RS_CFA_REG)
                run->state.cfa_offset = c->next[1];
        else if ((op & 0xc0) != DW_CFA_offset || !set_saved(run, op & 0x3f, c->next[1]))
                return false;
        c->next += 2;
        c->left -= 2;
        return true;
}

/*
 * PLTs of other linkers push elsewhere than at RS_CFA_PLT's byte: a row for each half then. It is the only thing that takes
 * time by addresses, which an entry has as many of as it says, and any number of entries may say the same.
 */
static int emit_plt(const Run *run, uint64_t start, uint64_t end, const struct rs_table_rule *plt, CfiEmit emit, void *userdata) {
        const uint8_t from = run->state.plt_from;
        CfiRule rules[2] = { { .rule = *plt }, { .rule = *plt } };
        int r;

        r = spend(run->reader, end - start);
        if (r < 0)
                return r;
        rules[0].rule.cfa = rules[1].rule.cfa = RS_CFA_REG;
        rules[1].rule.cfa_offset += 8;
        while (start < end) {
                bool is_pushed = (start & 15) >= from;
                uint64_t next = (start & ~UINT64_C(15)) + (is_pushed ? 16 : from);

                next = MIN(next, end);
                r = emit(userdata, start, next, &rules[is_pushed]);
                if (r != 0)
                        return r;
                start = next;
        }
        return 0;
}

/* All that cfi_rule_of_state() looks at, but which of the other registers have a rule. */
static inline void state_to_words(const CfiState *s, bool is_signal, uint64_t words[static 4]) {
        words[0] = s->cfa | (uint64_t) s->cfa_reg << 8 | (uint64_t) s->fp.how << 16 | (uint64_t) s->fp.reg << 24 |
                   (uint64_t) s->ra.how << 32 | (uint64_t) s->ra.reg << 40 | (uint64_t) s->is_signed << 48 |
                   (uint64_t) (s->others != 0) << 49 | (uint64_t) is_signal << 50 | UINT64_C(1) << 63;
        words[1] = (uint64_t) s->cfa_offset;
        words[2] = (uint64_t) s->fp.offset;
        words[3] = (uint64_t) s->ra.offset;
}

/* Rows are millions, of few states. */
static inline CfiRule *find_rule(const Run *run) {
        CfiReader *reader = run->reader;
        CfiKnownRule *known;
        uint64_t words[4];

        state_to_words(&run->state, run->common->is_signal, words);
        known = &reader->rules[(words[0] ^ words[1] ^ (words[2] << 32)) * 0x9e3779b97f4a7c15ULL >> 56];
        if (((known->state[0] ^ words[0]) | (known->state[1] ^ words[1]) | (known->state[2] ^ words[2]) |
             (known->state[3] ^ words[3])) != 0) {
                memcpy(known->state, words, sizeof(words));
                known->rule = (CfiRule){};
                if (!cfi_rule_of_state(reader->machine, run->common->is_signal, &run->state, &known->rule.rule))
                        known->rule.rule = (struct rs_table_rule){ .cfa = RS_CFA_UNKNOWN };
        }
        return &known->rule;
}
_Static_assert(CFI_KNOWN_RULES == 1U << 8, "as many as the hash has bits");

static int emit_unknown(uint64_t start, uint64_t end, CfiEmit emit, void *userdata) {
        CfiRule unknown = { .rule = { .cfa = RS_CFA_UNKNOWN } };

        return start < end ? emit(userdata, start, end, &unknown) : 0;
}

static inline int emit_state(const Run *run, uint64_t start, uint64_t end, CfiEmit emit, void *userdata) {
        CfiRule *rule;

        if (start >= end)
                return 0;
        rule = find_rule(run);
        if (rule->rule.cfa == RS_CFA_PLT && run->state.plt_from != PLT_FROM)
                return emit_plt(run, start, end, &rule->rule, emit, userdata);
        return emit(userdata, start, end, rule);
}

/* Entries. */

/* The entry at an offset, without its length; id: what tells common ones from others. 0: the end. */
static int read_entry(const CfiReader *reader, size_t at, Cursor *ret, size_t *ret_id_size, size_t *ret_next) {
        Cursor c = { .left = reader->size - at };
        uint64_t size;

        if (c.left == 0)
                return 0;
        c.next = reader->data + at;
        size = cursor_take_unsigned(&c, 4);
        *ret_id_size = 4;
        if (size == 0 && !c.failed && reader->is_eh_frame)
                return 0;
        if (size == UINT32_MAX) {
                size = cursor_take_unsigned(&c, 8);
                if (!reader->is_eh_frame)
                        *ret_id_size = 8;
        }
        if (c.failed || size > c.left)
                return -EBADMSG;
        *ret = (Cursor){ .next = c.next, .left = size };
        *ret_next = (size_t) (c.next - reader->data) + size;
        return 1;
}

static bool is_common(const CfiReader *reader, uint64_t id, size_t id_size) {
        if (reader->is_eh_frame)
                return id == 0;
        return id == (id_size == 4 ? UINT32_MAX : UINT64_MAX);
}

/* P, L and R have data; what is of an unknown letter is skipped by the length of all of it, unless R is behind. */
static bool read_augmentation(const char *letters, Cursor *c, CfiCommon *common) {
        Cursor data;

        if (*letters == 0)
                return true;
        if (*letters++ != 'z')
                return false;
        common->augmented = true;
        data = cursor_take_block(c);
        for (; *letters; letters++) {
                uint64_t unused;
                uint8_t encoding;

                switch (*letters) {
                case 'R':
                        common->encoding = cursor_take_byte(&data);
                        break;
                case 'L':
                        (void) cursor_take_byte(&data);
                        break;
                case 'P':
                        encoding = cursor_take_byte(&data);
                        /* By way of memory or relative to whatever: only its size matters. */
                        if (!take_pointer(&data, encoding & 0x0f, 0, 0, &unused))
                                return false;
                        break;
                case 'S':
                        common->is_signal = true;
                        break;
                case 'B': /* return addresses are signed by the other key */
                case 'G': /* stacks are tagged */
                        break;
                default:
                        return !strchr(letters, 'R') && !data.failed;
                }
        }
        return !data.failed;
}

static bool parse_common(CfiReader *reader, Cursor *c, CfiCommon *common) {
        char letters[AUGMENTATION_MAX] = {};
        uint8_t version = cursor_take_byte(c);
        uint64_t ra;
        size_t n = 0;
        Run run = { .reader = reader, .common = common };

        if (version != 1 && version != 3 && version != 4)
                return false;
        while ((letters[n] = (char) cursor_take_byte(c)) != 0)
                if (++n == sizeof(letters))
                        return false;
        /* Sizes of addresses, and of numbers of segments. */
        if (version == 4 && (cursor_take_byte(c) != 8 || cursor_take_byte(c) != 0))
                return false;
        common->code_factor = cursor_take_uleb(c);
        common->data_factor = cursor_take_sleb(c);
        ra = version == 1 ? cursor_take_byte(c) : cursor_take_uleb(c);
        if (ra != reader->machine->ra || !read_augmentation(letters, c, common) || c->failed)
                return false;
        while (c->left > 0)
                if (!execute(&run, c) || c->failed)
                        return false;
        common->initial = run.state;
        return true;
}

/* NULL: there is none at this offset. Common entries are few, and those in use are kept. */
static int find_common(CfiReader *reader, size_t at, const CfiCommon **ret) {
        CfiCommon *common = &reader->commons[at / 4 % ELEMENTSOF(reader->commons)];
        size_t id_size, next;
        Cursor c;
        int r;

        *ret = common;
        if (common->at == at + 1)
                return 0;
        if (at >= reader->size)
                return -EBADMSG;
        r = read_entry(reader, at, &c, &id_size, &next);
        if (r <= 0)
                return -EBADMSG;
        r = spend(reader, c.left);
        if (r < 0)
                return r;
        if (!is_common(reader, cursor_take_unsigned(&c, id_size), id_size) || c.failed)
                return -EBADMSG;
        *common = (CfiCommon){ .at = (uint32_t) at + 1 };
        common->usable = parse_common(reader, &c, common);
        return 0;
}

void cfi_reader_init(CfiReader *reader, const CfiMachine *machine, bool is_eh_frame, const uint8_t *data, size_t size,
                     uint64_t address, uint64_t data_base) {
        *reader = (CfiReader){
                .data = data,
                .size = size,
                .address = address,
                .data_base = data_base,
                .machine = machine,
                .is_eh_frame = is_eh_frame,
                .work = (uint64_t) size * WORK_FACTOR + WORK_MIN,
        };
}

/* 1: it covers something; 0: nothing that can be used. */
static int parse_entry(CfiReader *reader, size_t common_at, Cursor *c, CfiEntry *ret) {
        const CfiCommon *common;
        uint64_t start, size;
        int r;

        r = find_common(reader, common_at, &common);
        if (r < 0)
                return r;
        if (!common->usable ||
            !take_pointer(c, common->encoding, reader->address + (uint64_t) (c->next - reader->data), reader->data_base,
                          &start) ||
            !take_pointer(c, common->encoding & 0x0f, 0, 0, &size) || size > UINT64_MAX - start)
                return 0;
        if (common->augmented)
                (void) cursor_take_block(c);
        if (c->failed)
                return 0;
        *ret = (CfiEntry){
                .start = start,
                .end = start + size,
                .program = (uint32_t) (c->next - reader->data),
                .program_size = (uint32_t) c->left,
                .common = (uint32_t) common_at,
        };
        return size > 0;
}

int cfi_next(CfiReader *reader, CfiEntry *ret) {
        size_t id_size, next;
        Cursor c;
        int r;

        while ((r = read_entry(reader, reader->at, &c, &id_size, &next)) > 0) {
                size_t id_at = (size_t) (c.next - reader->data);
                uint64_t id = cursor_take_unsigned(&c, id_size);

                if (c.failed)
                        return -EBADMSG;
                reader->at = next;
                r = spend(reader, 16);
                if (r < 0)
                        return r;
                if (is_common(reader, id, id_size))
                        continue;
                if (reader->is_eh_frame) {
                        if (id > id_at)
                                return -EBADMSG;
                        id = id_at - id;
                } else if (id > reader->size)
                        return -EBADMSG;
                r = parse_entry(reader, id, &c, ret);
                if (r != 0)
                        return r;
                reader->n_skipped++;
        }
        return r;
}

int cfi_run(CfiReader *reader, const CfiEntry *entry, CfiEmit emit, void *userdata) {
        Cursor c = { .next = reader->data + entry->program, .left = entry->program_size };
        const CfiCommon *common;
        Run run;
        int r;

        r = spend(reader, entry->program_size);
        if (r < 0)
                return r;
        r = find_common(reader, entry->common, &common);
        if (r < 0)
                return r;
        run.reader = reader;
        run.common = common;
        run.initial = &common->initial;
        run.state = common->initial;
        run.n_remembered = 0;
        run.location = entry->start;
        while (c.left > 0 && run.location < entry->end) {
                const uint64_t from = run.location;
                bool is_followed;

                if ((*c.next & 0xc0) == DW_CFA_advance_loc)
                        is_followed = advance(&run, cursor_take_byte(&c) & 0x3f);
                else
                        is_followed = execute_frequent(&run, &c) || (execute(&run, &c) && !c.failed);
                if (!is_followed)
                        return emit_unknown(from, entry->end, emit, userdata);
                /* What moves on changes nothing else. */
                r = emit_state(&run, from, MIN(run.location, entry->end), emit, userdata);
                if (r != 0)
                        return r;
        }
        return emit_state(&run, run.location, entry->end, emit, userdata);
}
