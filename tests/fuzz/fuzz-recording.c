/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A recording and the journal that a killed writer may have left beside it. The input is the size of
 * the recording in four bytes (little-endian), the recording, and the journal, where something is left.
 */

#include <endian.h>
#include <fcntl.h>
#include <string.h>

#include "fuzz.h"
#include "ringside.h"
#include "util.h"

static void write_file(const char *path, const uint8_t *data, size_t size) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        if (fd < 0 || write(fd, data, size) != (ssize_t) size || close(fd) < 0)
                abort();
}

/* What the trees say must add up. */
static void check_node(const RingsideNode *node) {
        uint64_t samples = node->self_samples;

        for (size_t i = 0; i < node->n_children; i++) {
                check_node(node->children[i]);
                samples += node->children[i]->total_samples;
        }
        if (samples != node->total_samples)
                abort();
}

static void use_profile(RingsideRecording *recording, RingsideProfile *profile, FILE *null) {
        const RingsideNode *root;
        const RingsideRow *rows;
        size_t n;

        for (unsigned group = 0; group <= RINGSIDE_BY_LINE; group++)
                (void) ringside_profile_get_rows(profile, group, &rows, &n);
        if (ringside_profile_get_callees(profile, &root) >= 0) {
                if (root->total_samples != ringside_profile_get_samples(profile))
                        abort();
                check_node(root);
        }
        (void) ringside_profile_get_callers(profile, &root);
        (void) ringside_export_collapsed(profile, null, NULL);
        (void) ringside_export_pprof(recording, NULL, null, NULL);
}

static void use_recording(const char *path) {
        RingsideRecording *recording;
        RingsideProfile *profile;
        RingsideError error = {};
        FILE *null;

        if (ringside_recording_open(&recording, path, &error) < 0) {
                if (error.text[0] == 0)
                        abort();
                return;
        }
        null = fopen("/dev/null", "we");
        if (null && ringside_profile_new(&profile, recording, NULL, &error) >= 0) {
                use_profile(recording, profile, null);
                ringside_profile_free(profile);
        }
        fclosep(&null);
        ringside_recording_free(recording);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char dir[] = "/tmp/ringside-fuzz-XXXXXX", path[64], journal[80];
        uint32_t n;

        if (size < sizeof(n))
                return 0;
        memcpy(&n, data, sizeof(n));
        data += sizeof(n);
        size -= sizeof(n);
        n = MIN(le32toh(n), size);

        if (!mkdtemp(dir))
                abort();
        (void) snprintf(path, sizeof(path), "%s/x.ringside", dir);
        (void) snprintf(journal, sizeof(journal), "%s-journal", path);
        write_file(path, data, n);
        if (size > n)
                write_file(journal, data + n, size - n);
        use_recording(path);
        (void) unlink(path);
        (void) unlink(journal);
        (void) rmdir(dir);
        return 0;
}
