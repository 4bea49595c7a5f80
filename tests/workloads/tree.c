/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Threads that evaluate expression trees, over and over: a recursive interpreter, whose stacks are deep and
 * many, and come again. What it does is always the same amount of work, so that its own time shows what
 * watching it costs; it says at its end how long that took it, in one line of JSON.
 *
 *     workload-tree UNITS THREADS      a unit of work (spin.h) is some 15 us of CPU
 */

#include <pthread.h>
#include <sys/resource.h>

#include "spin.h"

#define N_TREES 16
#define DEPTH_MAX 24
#define DEPTH_MIN 5
#define THREADS_MAX 16

typedef enum Kind { NUMBER, NAME, SUM, PRODUCT, NEGATE, CALL, KIND_MAX } Kind;

typedef struct Node {
        Kind kind;
        uint64_t value;
        struct Node *left, *right;
} Node;

typedef struct Worker {
        pthread_t thread;
        uint64_t units, result;
        uint64_t done; /* units */
} Worker;

static Node *trees[N_TREES];

static uint64_t next_random(uint64_t *state) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        return *state >> 33;
}

/* Thin and deep: one side goes on, the other one seldom. */
static Node *grow(uint64_t *state, unsigned depth) {
        Node *node = calloc(1, sizeof(*node));

        if (!node)
                exit(1);
        node->value = next_random(state);
        if (depth >= DEPTH_MAX || (depth > DEPTH_MIN && next_random(state) % 16 == 0)) {
                node->kind = next_random(state) % 2 ? NUMBER : NAME;
                return node;
        }
        node->kind = SUM + next_random(state) % (KIND_MAX - SUM);
        node->left = grow(state, depth + 1);
        if (node->kind != NEGATE)
                node->right = grow(state, next_random(state) % 8 == 0 ? depth + 1 : DEPTH_MAX);
        return node;
}

static NOINLINE uint64_t evaluate(Worker *worker, const Node *node);

static NOINLINE uint64_t evaluate_number(Worker *worker, const Node *node) {
        worker->done++;
        return spin(node->value, 1) + 1;
}

static NOINLINE uint64_t hash_name(uint64_t x) {
        return spin(x, 1) + 2;
}

static NOINLINE uint64_t evaluate_name(Worker *worker, const Node *node) {
        worker->done += 2;
        return spin(hash_name(node->value), 1) + 3;
}

static NOINLINE uint64_t evaluate_sum(Worker *worker, const Node *node) {
        return evaluate(worker, node->left) + evaluate(worker, node->right);
}

static NOINLINE uint64_t evaluate_product(Worker *worker, const Node *node) {
        uint64_t x = evaluate(worker, node->left);

        worker->done++;
        return spin(x, 1) * evaluate(worker, node->right);
}

static NOINLINE uint64_t evaluate_negate(Worker *worker, const Node *node) {
        return 0 - evaluate(worker, node->left);
}

static NOINLINE uint64_t evaluate_call(Worker *worker, const Node *node) {
        uint64_t arguments[2] = {evaluate(worker, node->left), evaluate(worker, node->right)};

        return hash_name(arguments[0] ^ arguments[1]) + worker->done++;
}

static uint64_t evaluate(Worker *worker, const Node *node) {
        static uint64_t (*const functions[KIND_MAX])(Worker *, const Node *) = {
                [NUMBER] = evaluate_number, [NAME] = evaluate_name,     [SUM] = evaluate_sum,
                [PRODUCT] = evaluate_product, [NEGATE] = evaluate_negate, [CALL] = evaluate_call,
        };

        return functions[node->kind](worker, node) + 4;
}

static void *worker_run(void *p) {
        Worker *worker = p;

        for (unsigned i = 0; worker->done < worker->units; i++)
                worker->result += evaluate(worker, trees[i % N_TREES]);
        return NULL;
}

static double seconds_of(struct timeval t) {
        return (double) t.tv_sec + (double) t.tv_usec / 1e6;
}

int main(int argc, char **argv) {
        unsigned long units = argc == 3 ? strtoul(argv[1], NULL, 10) : 0, n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
        Worker workers[THREADS_MAX] = {};
        struct timespec begin, end;
        struct rusage usage;
        uint64_t state = 1, done = 0;

        if (units == 0 || n == 0 || n > THREADS_MAX) {
                fprintf(stderr, "usage: %s UNITS THREADS\n", argv[0]);
                return 2;
        }
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (unsigned i = 0; i < N_TREES; i++)
                trees[i] = grow(&state, 0);
        for (unsigned long i = 0; i < n; i++) {
                workers[i].units = units / n;
                if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0)
                        return 1;
        }
        for (unsigned long i = 0; i < n; i++) {
                pthread_join(workers[i].thread, NULL);
                done += workers[i].done;
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        getrusage(RUSAGE_SELF, &usage);
        printf("{\"wall\": %.6f, \"user\": %.6f, \"system\": %.6f, \"units\": %llu}\n",
               (double) (end.tv_sec - begin.tv_sec) + (double) (end.tv_nsec - begin.tv_nsec) / 1e9,
               seconds_of(usage.ru_utime), seconds_of(usage.ru_stime), (unsigned long long) done);
        return spin_end(workers[0].result);
}
