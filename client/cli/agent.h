/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * polkit's text agent, for the time of one question: asks for a password on our terminal where no
 * desktop does. It must be gone before a recorded program gets the terminal.
 */

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

typedef struct Agent {
        pid_t pid; /* 0: none */
        struct termios terminal;
        bool terminal_known;
} Agent;

/* Whether somebody may be there to answer: a desktop, or a person at stdin and stderr. */
bool agent_somebody_there(void);
/*
 * Starts one where stdin and stderr are a terminal, and waits until it is registered. Without an
 * agent polkit refuses and says so: nothing here is an error.
 */
void agent_start(Agent *ret);
/* Ends it and gives the terminal its settings back. */
void agent_stop(Agent *agent);
