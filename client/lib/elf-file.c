/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Both classes are widened to the 64-bit structs as they are read, so that only the few read_
 * functions know there are two. ElfSection headers are read when first needed: most files that are
 * mapped never get a sample.
 */

#include "elf-file-internal.h"

#include <endian.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define SEGMENTS_MAX 1024U
#define SECTIONS_MAX 65536U
#define NOTES_SIZE_MAX (64U << 10)
#define NOTES_TOTAL_MAX (1U << 20)
#define SECTION_NAMES_MAX (1U << 20)
#define CHDR_ZSTD 2U /* ELFCOMPRESS_ZSTD, which is not in every elf.h */
#define CRC_SIZE_MAX (UINT64_C(1) << 30)

int elf_file_read_at(const ElfFile *elf, uint64_t offset, void *buffer, size_t size) {
        if (offset > elf->size || size > elf->size - offset)
                return -EBADMSG;
        if (elf->data) {
                if (size > 0)
                        memcpy(buffer, elf->data + offset, size);
                return 0;
        }
        for (size_t done = 0; done < size;) {
                ssize_t n = RETRY_ON_EINTR(
                        pread(elf->fd, (char *) buffer + done, size - done, (off_t) (offset + done)));

                if (n < 0)
                        return -errno;
                if (n == 0) /* it was longer when we looked */
                        return -EBADMSG;
                done += (size_t) n;
        }
        return 0;
}

/* Entry index of a table at offset; the sum may be anything in a hostile file. */
static int entry_offset(uint64_t table, uint64_t index, size_t entry_size, uint64_t *ret) {
        if (__builtin_mul_overflow(index, entry_size, &index) || __builtin_add_overflow(table, index, ret))
                return -EBADMSG;
        return 0;
}

static int read_header(ElfFile *elf) {
        Elf32_Ehdr h32;
        int r;

        r = elf_file_read_at(elf, 0, elf->header.e_ident, EI_NIDENT);
        if (r < 0)
                return r;
        if (memcmp(elf->header.e_ident, ELFMAG, SELFMAG) != 0 ||
            elf->header.e_ident[EI_DATA] != (BYTE_ORDER == LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB))
                return -EBADMSG;
        elf->is64 = elf->header.e_ident[EI_CLASS] == ELFCLASS64;
        if (elf->is64)
                return elf_file_read_at(elf, 0, &elf->header, sizeof(elf->header));
        if (elf->header.e_ident[EI_CLASS] != ELFCLASS32)
                return -EBADMSG;
        r = elf_file_read_at(elf, 0, &h32, sizeof(h32));
        if (r < 0)
                return r;
        elf->header.e_type = h32.e_type;
        elf->header.e_machine = h32.e_machine;
        elf->header.e_phoff = h32.e_phoff;
        elf->header.e_shoff = h32.e_shoff;
        elf->header.e_phentsize = h32.e_phentsize;
        elf->header.e_phnum = h32.e_phnum;
        elf->header.e_shentsize = h32.e_shentsize;
        elf->header.e_shnum = h32.e_shnum;
        elf->header.e_shstrndx = h32.e_shstrndx;
        return 0;
}

static int read_program_header(const ElfFile *elf, size_t index, Elf64_Phdr *ret) {
        Elf32_Phdr p32;
        uint64_t offset;
        int r;

        r = entry_offset(elf->header.e_phoff, index, elf->is64 ? sizeof(*ret) : sizeof(p32), &offset);
        if (r < 0)
                return r;
        if (elf->is64)
                return elf_file_read_at(elf, offset, ret, sizeof(*ret));
        r = elf_file_read_at(elf, offset, &p32, sizeof(p32));
        if (r < 0)
                return r;
        *ret = (Elf64_Phdr){
                .p_type = p32.p_type,
                .p_flags = p32.p_flags,
                .p_offset = p32.p_offset,
                .p_vaddr = p32.p_vaddr,
                .p_filesz = p32.p_filesz,
                .p_align = p32.p_align,
        };
        return 0;
}

static int read_section_header(const ElfFile *elf, size_t index, Elf64_Shdr *ret) {
        Elf32_Shdr s32;
        uint64_t offset;
        int r;

        r = entry_offset(elf->header.e_shoff, index, elf->is64 ? sizeof(*ret) : sizeof(s32), &offset);
        if (r < 0)
                return r;
        if (elf->is64)
                return elf_file_read_at(elf, offset, ret, sizeof(*ret));
        r = elf_file_read_at(elf, offset, &s32, sizeof(s32));
        if (r < 0)
                return r;
        *ret = (Elf64_Shdr){
                .sh_name = s32.sh_name,
                .sh_type = s32.sh_type,
                .sh_flags = s32.sh_flags,
                .sh_addr = s32.sh_addr,
                .sh_offset = s32.sh_offset,
                .sh_size = s32.sh_size,
                .sh_link = s32.sh_link,
                .sh_entsize = s32.sh_entsize,
        };
        return 0;
}

static size_t align4(size_t n) {
        return (n + 3) & ~(size_t) 3;
}

static void take_note(ElfFile *elf, uint32_t type, const uint8_t *name, size_t name_len, const uint8_t *desc,
                      size_t len) {
        if (type == NT_GNU_BUILD_ID && name_len == 4 && memcmp(name, "GNU", 4) == 0) {
                /* Longer ones do not exist; half of one would be a wrong identity. */
                if (len == 0 || len > ELF_BUILD_ID_MAX || elf->build_id_is_gnu)
                        return;
                elf->build_id_is_gnu = true;
        } else if (type == 4 && name_len == 4 && memcmp(name, "Go\0", 4) == 0) {
                if (len == 0 || elf->build_id_len > 0)
                        return;
                len = MIN(len, ELF_BUILD_ID_MAX);
        } else
                return;
        memcpy(elf->build_id, desc, len);
        elf->build_id_len = len;
}

static void take_notes(ElfFile *elf, const uint8_t *notes, size_t size) {
        size_t at = 0;

        while (size - at >= sizeof(Elf64_Nhdr)) {
                Elf64_Nhdr note; /* three words in both classes */
                size_t left, desc;

                memcpy(&note, notes + at, sizeof(note));
                at += sizeof(note);
                left = size - at;
                if (note.n_namesz > left || note.n_descsz > left)
                        break;
                desc = align4(note.n_namesz);
                if (desc > left || note.n_descsz > left - desc)
                        break;
                take_note(elf, note.n_type, notes + at, note.n_namesz, notes + at + desc, note.n_descsz);
                at += MIN(desc + align4(note.n_descsz), left);
        }
}

size_t elf_notes_get_build_id(const uint8_t *notes, size_t size, uint8_t ret[static ELF_BUILD_ID_MAX]) {
        ElfFile elf = {};

        take_notes(&elf, notes, size);
        memcpy(ret, elf.build_id, elf.build_id_len);
        return elf.build_id_len;
}

static int read_notes(ElfFile *elf, uint64_t offset, uint64_t size) {
        _cleanup_free_ uint8_t *notes = NULL;
        int r;

        if (size > NOTES_SIZE_MAX || size > NOTES_TOTAL_MAX - elf->notes_read)
                return 0; /* no build id is in there */
        elf->notes_read += size;
        notes = malloc(MAX(size, 1));
        if (!notes)
                return -ENOMEM;
        r = elf_file_read_at(elf, offset, notes, size);
        if (r < 0)
                return r;
        take_notes(elf, notes, size);
        return 0;
}

static int read_segments(ElfFile *elf) {
        size_t n = elf->header.e_phnum;
        int r;

        if (n == 0)
                return 0;
        if (n > SEGMENTS_MAX)
                return -EFBIG;
        if (elf->header.e_phentsize != (elf->is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)))
                return -EBADMSG;
        elf->segments = calloc(n, sizeof(*elf->segments));
        if (!elf->segments)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                Elf64_Phdr p;

                r = read_program_header(elf, i, &p);
                if (r < 0)
                        return r;
                if (p.p_type == PT_LOAD && p.p_filesz > 0)
                        elf->segments[elf->n_segments++] = (ElfSegment){
                                .offset = p.p_offset,
                                .size = p.p_filesz,
                                .address = p.p_vaddr,
                                .executable = p.p_flags & PF_X,
                        };
                if (p.p_type == PT_GNU_EH_FRAME)
                        elf->eh_frame_hdr = p.p_vaddr;
                if (p.p_type != PT_NOTE)
                        continue;
                /* In separate debug files notes may point anywhere: then the sections tell. */
                r = read_notes(elf, p.p_offset, p.p_filesz);
                if (r < 0 && r != -EBADMSG)
                        return r;
        }
        return 0;
}

/* Where there are more than the header can count, section 0 has the number. */
static int get_n_sections(ElfFile *elf, size_t *ret) {
        Elf64_Shdr first;
        int r;

        *ret = elf->header.e_shnum;
        if (elf->header.e_shoff == 0 || *ret > 0)
                return 0;
        r = read_section_header(elf, 0, &first);
        if (r < 0)
                return r;
        if (first.sh_size > SECTIONS_MAX)
                return -EFBIG;
        *ret = first.sh_size;
        return 0;
}

int elf_file_read_sections(ElfFile *elf) {
        _cleanup_free_ ElfSection *sections = NULL;
        size_t n;
        int r;

        if (elf->has_sections)
                return 0;
        if (elf->header.e_shoff > 0 &&
            elf->header.e_shentsize != (elf->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr)))
                return -EBADMSG;
        r = get_n_sections(elf, &n);
        if (r < 0)
                return r;
        if (elf->header.e_shoff == 0)
                n = 0;
        sections = calloc(MAX(n, 1), sizeof(*sections));
        if (!sections)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                Elf64_Shdr s;

                r = read_section_header(elf, i, &s);
                if (r < 0)
                        return r;
                sections[i] = (ElfSection){
                        .name = s.sh_name,
                        .type = s.sh_type,
                        .link = s.sh_link,
                        .executable = s.sh_flags & SHF_EXECINSTR,
                        .compressed = s.sh_flags & SHF_COMPRESSED,
                        .address = s.sh_addr,
                        .offset = s.sh_offset,
                        .size = s.sh_size,
                        .entry_size = s.sh_entsize,
                };
        }
        elf->sections = TAKE_PTR(sections);
        elf->n_sections = n;
        elf->has_sections = true;
        return 0;
}

static int read_build_id_from_sections(ElfFile *elf) {
        int r;

        r = elf_file_read_sections(elf);
        if (r < 0)
                return r;
        for (size_t i = 0; i < elf->n_sections; i++) {
                if (elf->sections[i].type != SHT_NOTE)
                        continue;
                r = read_notes(elf, elf->sections[i].offset, elf->sections[i].size);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int elf_file_load(ElfFile *elf, bool relocatable) {
        int r;

        if (elf->size > ELF_FILE_SIZE_MAX)
                return -EFBIG;
        r = read_header(elf);
        if (r < 0)
                return r;
        if (elf->header.e_type != ET_EXEC && elf->header.e_type != ET_DYN && !(relocatable && elf->header.e_type == ET_REL))
                return -EBADMSG;
        r = read_segments(elf);
        if (r < 0)
                return r;
        if (elf->build_id_is_gnu)
                return 0;
        r = read_build_id_from_sections(elf);
        return r == -ENOMEM ? r : 0; /* whoever needs sections is told then */
}

static int elf_file_new(ElfFile **ret, int fd, const void *data, uint64_t size, bool relocatable) {
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        int r;

        elf = calloc(1, sizeof(*elf));
        if (!elf)
                return -ENOMEM;
        elf->fd = fd;
        elf->data = data;
        elf->size = size;
        r = elf_file_load(elf, relocatable);
        if (r < 0) {
                elf->fd = -1; /* stays the caller's */
                return r;
        }
        *ret = TAKE_PTR(elf);
        return 0;
}

static int new_take_fd(ElfFile **ret, int fd, bool relocatable) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EBADMSG;
        return elf_file_new(ret, fd, NULL, (uint64_t) st.st_size, relocatable);
}

int elf_file_new_take_fd(ElfFile **ret, int fd) {
        return new_take_fd(ret, fd, /* relocatable= */ false);
}

int elf_file_new_alt_take_fd(ElfFile **ret, int fd) {
        return new_take_fd(ret, fd, /* relocatable= */ true);
}

int elf_file_new_memory(ElfFile **ret, const void *data, size_t size) {
        return elf_file_new(ret, -1, data ? data : "", size, /* relocatable= */ false);
}

ElfFile *elf_file_free(ElfFile *elf) {
        if (!elf)
                return NULL;
        close_fd(elf->fd);
        free(elf->segments);
        free(elf->sections);
        free(elf);
        return NULL;
}

void elf_file_close(ElfFile *elf) {
        elf->fd = close_fd(elf->fd);
        free(elf->sections);
        elf->sections = NULL;
        elf->n_sections = 0;
        elf->has_sections = false;
}

size_t elf_file_get_build_id(const ElfFile *elf, const uint8_t **ret) {
        *ret = elf->build_id;
        return elf->build_id_len;
}

bool elf_file_has_build_id(const ElfFile *elf, const uint8_t *id, size_t len) {
        return len > 0 && elf->build_id_len == len && memcmp(elf->build_id, id, len) == 0;
}

/*
 * What is past filesz in the last page is mapped too, but there belongs to nobody or to the next
 * segment, whose own mapping shows it at another address: hence filesz, and never memsz.
 */
bool elf_file_get_address(const ElfFile *elf, uint64_t offset, uint64_t *ret) {
        const ElfSegment *found = NULL;

        for (size_t i = 0; i < elf->n_segments; i++) {
                const ElfSegment *s = &elf->segments[i];

                if (offset < s->offset || offset - s->offset >= s->size)
                        continue;
                /* Segments may share bytes of the file; code is what gets executed. */
                if (!found || (s->executable && !found->executable))
                        found = s;
        }
        if (!found)
                return false;
        *ret = offset - found->offset + found->address;
        return true;
}

int elf_file_get_fd(const ElfFile *elf) {
        return elf->fd;
}

int elf_file_stat(const ElfFile *elf, struct stat *ret) {
        return fstat(elf->fd, ret) < 0 ? -errno : 0;
}

int elf_file_statvfs(const ElfFile *elf, struct statvfs *ret) {
        return RETRY_ON_EINTR(fstatvfs(elf->fd, ret)) < 0 ? -errno : 0;
}

static uint64_t end_of(uint64_t start, uint64_t size) {
        return size > UINT64_MAX - start ? UINT64_MAX : start + size;
}

bool elf_file_get_code_address(const ElfFile *elf, uint64_t offset, uint64_t size, uint64_t *ret) {
        uint64_t end = end_of(offset, size), most = 0;

        for (size_t i = 0; i < elf->n_segments; i++) {
                const ElfSegment *s = &elf->segments[i];
                uint64_t from = MAX(offset, s->offset), to = MIN(end, end_of(s->offset, s->size));

                if (!s->executable || from >= to || to - from <= most)
                        continue;
                most = to - from;
                *ret = offset - s->offset + s->address;
        }
        return most > 0;
}

void elf_file_set_stop(ElfFile *elf, const bool *stop) {
        elf->stop = stop;
}

bool elf_file_is_stopped(const ElfFile *elf) {
        return elf->stop && __atomic_load_n(elf->stop, __ATOMIC_RELAXED);
}

unsigned elf_file_get_machine(const ElfFile *elf) {
        return elf->header.e_machine;
}

bool elf_file_is_relocatable(const ElfFile *elf) {
        return elf->header.e_type == ET_REL;
}

bool elf_file_is_64(const ElfFile *elf) {
        return elf->is64;
}

uint64_t elf_file_get_entry(const ElfFile *elf) {
        return elf->header.e_entry;
}

uint64_t elf_file_get_eh_frame_hdr(const ElfFile *elf) {
        return elf->eh_frame_hdr;
}

bool elf_file_get_code(const ElfFile *elf, uint64_t *ret_start, uint64_t *ret_end) {
        uint64_t start = UINT64_MAX, end = 0;

        for (size_t i = 0; i < elf->n_segments; i++) {
                const ElfSegment *s = &elf->segments[i];

                if (!s->executable || s->size > UINT64_MAX - s->address)
                        continue;
                start = MIN(start, s->address);
                end = MAX(end, s->address + s->size);
        }
        if (start >= end)
                return false;
        *ret_start = start;
        *ret_end = end;
        return true;
}

static const ElfSegment *find_segment(const ElfFile *elf, uint64_t address) {
        for (size_t i = 0; i < elf->n_segments; i++) {
                const ElfSegment *s = &elf->segments[i];

                if (address >= s->address && address - s->address < s->size)
                        return s;
        }
        return NULL;
}

uint64_t elf_file_get_bytes_at(const ElfFile *elf, uint64_t address) {
        const ElfSegment *s = find_segment(elf, address);

        return s ? s->size - (address - s->address) : 0;
}

int elf_file_read_address(const ElfFile *elf, uint64_t address, void *buffer, size_t size) {
        const ElfSegment *s = find_segment(elf, address);
        uint64_t offset;

        if (!s || size > s->size - (address - s->address) ||
            __builtin_add_overflow(s->offset, address - s->address, &offset))
                return -EBADMSG;
        return elf_file_read_at(elf, offset, buffer, size);
}

int elf_file_find_section(const ElfFile *elf, const char *name, const ElfSection **ret) {
        _cleanup_free_ char *names = NULL;
        const ElfSection *strings;
        uint32_t index = elf->header.e_shstrndx;
        int r;

        if (index == SHN_XINDEX && elf->n_sections > 0)
                index = elf->sections[0].link;
        if (index == SHN_UNDEF || index >= elf->n_sections)
                return -ENOENT;
        strings = &elf->sections[index];
        if (strings->size > SECTION_NAMES_MAX)
                return -EFBIG;
        names = malloc(strings->size + 1);
        if (!names)
                return -ENOMEM;
        r = elf_file_read_at(elf, strings->offset, names, strings->size);
        if (r < 0)
                return r;
        names[strings->size] = 0;
        for (size_t i = 0; i < elf->n_sections; i++) {
                const ElfSection *section = &elf->sections[i];

                if (section->name < strings->size && strcmp(names + section->name, name) == 0) {
                        *ret = section;
                        return 0;
                }
        }
        return -ENOENT;
}

int elf_file_has_section(ElfFile *elf, const char *name) {
        const ElfSection *section;
        int r;

        r = elf_file_read_sections(elf);
        if (r >= 0)
                r = elf_file_find_section(elf, name, &section);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        return section->type != SHT_NOBITS && section->size > 0;
}

bool elf_file_is_zstd(ElfFile *elf, const char *name) {
        const ElfSection *section;
        uint32_t type; /* the first member of both classes' header */

        return elf_file_read_sections(elf) >= 0 && elf_file_find_section(elf, name, &section) >= 0 && section->compressed &&
               elf_file_read_at(elf, section->offset, &type, sizeof(type)) >= 0 && type == CHDR_ZSTD;
}

/* deflate() makes nothing smaller than that: who says so wants us to allocate. */
#define INFLATE_MAX 1032U

static int uncompress_section(const uint8_t *data, size_t size, size_t max, uint8_t **ret, size_t *ret_size) {
        _cleanup_free_ uint8_t *plain = NULL;
        Elf64_Chdr header;
        uLongf n;

        if (size < sizeof(header))
                return -EBADMSG;
        memcpy(&header, data, sizeof(header));
        if (header.ch_type != ELFCOMPRESS_ZLIB)
                return -ENOENT; /* as if it had been stripped */
        size -= sizeof(header);
        if (header.ch_size > max)
                return -EFBIG;
        if (header.ch_size / INFLATE_MAX > size)
                return -EBADMSG;
        plain = malloc(MAX(header.ch_size, 1));
        if (!plain)
                return -ENOMEM;
        n = header.ch_size;
        switch (uncompress(plain, &n, data + sizeof(header), size)) {
        case Z_OK:
                break;
        case Z_MEM_ERROR:
                return -ENOMEM;
        default:
                return -EBADMSG;
        }
        if (n != header.ch_size)
                return -EBADMSG;
        *ret = TAKE_PTR(plain);
        *ret_size = n;
        return 0;
}

int elf_file_read_section(ElfFile *elf, const char *name, size_t max, uint8_t **ret, size_t *ret_size,
                          uint64_t *ret_address) {
        _cleanup_free_ uint8_t *data = NULL;
        const ElfSection *section;
        int r;

        r = elf_file_read_sections(elf);
        if (r < 0)
                return r;
        r = elf_file_find_section(elf, name, &section);
        if (r < 0)
                return r;
        if (section->type == SHT_NOBITS)
                return -ENOENT;
        if (section->size > max)
                return -EFBIG;
        if (section->offset > elf->size || section->size > elf->size - section->offset)
                return -EBADMSG;
        if (section->compressed && !elf->is64)
                return -ENOENT;
        data = malloc(MAX(section->size, 1));
        if (!data)
                return -ENOMEM;
        r = elf_file_read_at(elf, section->offset, data, section->size);
        if (r < 0)
                return r;
        if (section->compressed)
                r = uncompress_section(data, section->size, max, ret, ret_size);
        else {
                *ret = TAKE_PTR(data);
                *ret_size = section->size;
        }
        if (r >= 0)
                *ret_address = section->address;
        return r;
}

/* A file name with its final 0, padding to four bytes, the CRC. */
int elf_file_get_debuglink(ElfFile *elf, char **ret_name, uint32_t *ret_crc) {
        char link[256 + 8] = {};
        const ElfSection *section;
        size_t len;
        int r;

        r = elf_file_read_sections(elf);
        if (r < 0)
                return r;
        r = elf_file_find_section(elf, ".gnu_debuglink", &section);
        if (r < 0)
                return r;
        if (section->type == SHT_NOBITS)
                return -ENOENT;
        if (section->size > sizeof(link))
                return -EBADMSG;
        r = elf_file_read_at(elf, section->offset, link, section->size);
        if (r < 0)
                return r;
        len = strnlen(link, section->size);
        if (len == 0 || len > 255 || align4(len + 1) + 4 > section->size)
                return -EBADMSG;
        if (strchr(link, '/') || strcmp(link, ".") == 0 || strcmp(link, "..") == 0)
                return -EBADMSG;
        memcpy(ret_crc, link + align4(len + 1), 4);
        *ret_name = strdup(link);
        return *ret_name ? 0 : -ENOMEM;
}

int elf_file_get_crc(ElfFile *elf, uint64_t deadline, uint32_t *ret) {
        _cleanup_free_ uint8_t *buffer = NULL;
        const size_t size = 256U << 10;
        unsigned long crc = crc32(0, NULL, 0);

        if (elf->size > CRC_SIZE_MAX)
                return -EFBIG;
        buffer = malloc(size);
        if (!buffer)
                return -ENOMEM;
        for (uint64_t at = 0; at < elf->size;) {
                size_t n = (size_t) MIN(size, elf->size - at);
                int r;

                if (deadline > 0 && now_ns(CLOCK_MONOTONIC) >= deadline)
                        return -ETIMEDOUT;
                r = elf_file_read_at(elf, at, buffer, n);
                if (r < 0)
                        return r;
                crc = crc32(crc, buffer, (unsigned) n);
                at += n;
        }
        *ret = (uint32_t) crc;
        return 0;
}
