#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
at-once.py BUS-ENV BUILD SCRIPT NAME...: runs a script with each of the names at the same time, each in a bus-env of its own,
for what is asleep nearly all of the time and would only keep others waiting.
"""

import subprocess
import sys

bus_env, build, script, *names = sys.argv[1:]
running = {name: subprocess.Popen([bus_env, "--build", build, "--", "python3", script, name], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for name in names}
for name, process in running.items():
    output = process.communicate()[0]
    print(f"{name}: exit status {process.returncode}\n{output}", flush=True)
statuses = {process.returncode for process in running.values()}
# 77: the machine cannot do this.
sys.exit(77 if statuses == {77} else 0 if statuses == {0} else 1)
