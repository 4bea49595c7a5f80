/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "server-urls.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "util.h"

#define SUFFIX ".urls"
/* Of one file, with a final 0; of more nobody has an environment. */
#define TEXT_SIZE 4096

static int is_urls(const struct dirent *entry) {
        size_t len = strlen(entry->d_name), suffix = strlen(SUFFIX);

        return len > suffix && entry->d_name[0] != '.' && strcmp(entry->d_name + len - suffix, SUFFIX) == 0;
}

static int append(char **urls, const char *text) {
        char *longer;

        if (asprintf(&longer, "%s%s%s", *urls, **urls && *text ? " " : "", text) < 0)
                return -ENOMEM;
        free(*urls);
        *urls = longer;
        return 0;
}

/* What cannot be read, or is so long that a name might be cut short, names no server. */
static int append_file(char **urls, int dir_fd, const char *name) {
        _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        char text[TEXT_SIZE], *state;
        ssize_t n = fd < 0 ? -1 : RETRY_ON_EINTR(read(fd, text, sizeof(text) - 1));
        int r = 0;

        if (n <= 0 || n == sizeof(text) - 1)
                return 0;
        text[n] = 0;
        for (char *word = strtok_r(text, " \t\r\n", &state); word && r >= 0; word = strtok_r(NULL, " \t\r\n", &state))
                r = append(urls, word);
        return r;
}

int server_urls_read(const char *directory, char **ret) {
        _cleanup_close_ int dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *urls = strdup("");
        struct dirent **entries = NULL;
        int n = 0, r = urls ? 0 : -ENOMEM;

        if (dir_fd >= 0 && r >= 0)
                n = scandirat(dir_fd, ".", &entries, is_urls, alphasort);
        if (n < 0 && errno == ENOMEM)
                r = -ENOMEM;
        for (int i = 0; i < n; i++) {
                if (r >= 0)
                        r = append_file(&urls, dir_fd, entries[i]->d_name);
                free(entries[i]);
        }
        free(entries);
        if (r >= 0)
                *ret = TAKE_PTR(urls);
        return r;
}
