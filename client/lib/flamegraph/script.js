/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The flame graph's page: reads the call tree from #data, draws the frames that are wide enough and
 * in view as one element each, and keeps one of them focusable. Names only ever become text nodes
 * and attribute values.
 */
'use strict';
(() => {

const COLOURS = 8;       /* c0 to c7 in the style */
const MIN_PIXELS = 1;    /* narrower frames are not drawn */
const LABEL_PIXELS = 26; /* narrower frames have no text */
const MARGIN_ROWS = 8;   /* drawn beyond what is scrolled into view */

const byId = id => document.getElementById(id);

function element(tag, className, text) {
    const e = document.createElement(tag);
    if (className)
        e.className = className;
    if (text !== undefined)
        e.textContent = text;
    return e;
}

/* ---- the tree ---- */

const data = JSON.parse(byId('data').textContent);
const info = data.info;
const functions = data.functions.map(([name, file, kind]) => ({ name, file, kernel: kind === 1, inlined: kind === 2, matches: false }));
const tree = readTree(data.frames);

/* Frames are in preorder: i's descendants are i + 1 to end[i] - 1. Positions are in units of weight. */
function readTree(flat) {
    const n = flat.length / 6;
    const t = {
        n, depth: new Uint32Array(n), fn: new Uint32Array(n), parent: new Int32Array(n), end: new Uint32Array(n),
        selfSamples: new Float64Array(n), samples: new Float64Array(n),
        selfWeight: new Float64Array(n), weight: new Float64Array(n),
        start: new Float64Array(n), filled: new Float64Array(n),
    };
    const open = []; /* the frames that the next one may be below */
    for (let i = 0; i < n; i++) {
        [t.depth[i], t.fn[i], t.selfSamples[i], t.samples[i], t.selfWeight[i], t.weight[i]] = flat.slice(6 * i, 6 * i + 6);
        while (open.length > t.depth[i])
            t.end[open.pop()] = i;
        const p = open.length ? open[open.length - 1] : -1;
        t.parent[i] = p;
        if (p >= 0) {
            /* Damaged recordings may have children that are more than their parent. */
            t.weight[i] = Math.min(t.weight[i], t.weight[p] - t.filled[p]);
            t.start[i] = t.start[p] + t.filled[p];
            t.filled[p] += t.weight[i];
        }
        open.push(i);
    }
    for (const i of open)
        t.end[i] = n;
    return t;
}

const total = tree.n ? tree.weight[0] : 0;

function children(i) {
    const list = [];
    for (let c = i + 1; c < tree.end[i]; c = tree.end[c])
        list.push(c);
    return list;
}

function ancestors(i) {
    const list = [];
    for (let a = tree.parent[i]; a >= 0; a = tree.parent[a])
        list.unshift(a);
    return list;
}

const nameOf = i => functions[tree.fn[i]].name || (i === 0 ? 'all' : '(no name)');

/* What kernel frames have besides their colour, and inlined ones have. */
function labelOf(i) {
    const f = functions[tree.fn[i]];
    const kernel = f.kernel && !nameOf(i).startsWith('[kernel');
    return (kernel ? '[k] ' : '') + nameOf(i) + (f.inlined ? ' (inlined)' : '');
}

/* ---- numbers ---- */

const count = n => n.toLocaleString('en');
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;

function share(part, whole) {
    if (!(whole > 0))
        return '–';
    const percent = 100 * part / whole;
    if (part > 0 && percent < 0.01)
        return '< 0.01 %';
    return `${percent.toFixed(percent < 1 ? 2 : 1)} %`;
}

function time(ns) {
    for (const [limit, unit, scale] of [[1e3, 'ns', 1], [1e6, 'µs', 1e3], [1e9, 'ms', 1e6], [120e9, 's', 1e9]])
        if (ns < limit)
            return `${unit === 'ns' ? ns : (ns / scale).toPrecision(3)} ${unit}`;
    const minutes = Math.floor(ns / 60e9);
    if (minutes < 120)
        return `${minutes} min ${Math.floor(ns % 60e9 / 1e9)} s`;
    return `${count(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

const weighted = info.unit !== 'samples';
const weightTitle = info.unit === 'ns' ? 'CPU time' : info.unit;
const weightText = w => info.unit === 'ns' ? time(w) : count(w);

/* ---- colours: the files with the most self time get one each ---- */

const files = new Map();
for (let i = 0; i < tree.n; i++) {
    const f = functions[tree.fn[i]];
    const key = f.kernel ? 'kernel' : f.file ? `file ${f.file}` : 'plain';
    f.colour = files.get(key) || { title: f.kernel ? 'kernel' : f.file || 'processes', className: key, weight: 0 };
    f.colour.weight += tree.selfWeight[i];
    files.set(key, f.colour);
}

function assignColours() {
    const own = [...files.values()].filter(c => c.className.startsWith('file '));
    own.sort((a, b) => b.weight - a.weight || (a.title < b.title ? -1 : 1));
    own.forEach((c, i) => {
        c.className = i < COLOURS ? `c${i}` : 'other';
    });
    const rest = own.slice(COLOURS);
    const shown = own.slice(0, COLOURS);
    if (rest.length)
        shown.push({ title: plural(rest.length, 'other file'), className: 'other', weight: rest.reduce((s, c) => s + c.weight, 0) });
    for (const key of ['kernel', 'plain'])
        if (files.has(key))
            shown.push(files.get(key));
    const gap = total - shown.reduce((sum, c) => sum + c.weight, 0);
    if (info.leftOut > 0 && gap > 0)
        shown.push({ title: 'left out', className: 'gap', weight: gap });
    for (const c of shown) {
        const item = element('li');
        item.append(element('span', c.className), element('span', '', c.title));
        if (c.weight > 0)
            item.append(element('b', '', share(c.weight, total)));
        byId('legend').append(item);
    }
}

/* ---- what is shown ---- */

const chart = byId('chart'), area = byId('frames'), tip = byId('tip');
const elements = new Map(); /* by frame: what is in the document */
let zoomed = 0;             /* the frame that is as wide as the chart */
let current = 0;            /* the frame that has, or had, the focus */
let upwards = true;         /* flame: the root is at the bottom */
let searching = false;
let shown = [];             /* [frame, left, width] with the last two as shares of the chart */
let rows = 1;

const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--row'));
const rowOf = i => upwards ? rows - 1 - tree.depth[i] : tree.depth[i];

/* Chooses what is wide enough. The current frame is always there, so that the focus is never lost. */
function layOut() {
    const pixels = Math.max(area.clientWidth, 1);
    const whole = tree.weight[zoomed];
    shown = ancestors(zoomed).map(a => [a, 0, 1]);
    rows = tree.depth[zoomed] + 1;
    for (let i = zoomed; i < tree.end[zoomed];) {
        const width = i === zoomed ? 1 : whole > 0 ? tree.weight[i] / whole : 0;
        const holdsCurrent = current >= i && current < tree.end[i];
        if (width * pixels < MIN_PIXELS && !holdsCurrent) {
            i = tree.end[i];
            continue;
        }
        shown.push([i, whole > 0 ? (tree.start[i] - tree.start[zoomed]) / whole : 0, width]);
        rows = Math.max(rows, tree.depth[i] + 1);
        i++;
    }
    area.style.height = `${rows * rowHeight()}px`;
}

function describe(i) {
    const f = functions[tree.fn[i]];
    const parts = [f.kernel ? `kernel function ${nameOf(i)}` : f.inlined ? `inlined function ${nameOf(i)}` : nameOf(i)];
    if (f.file)
        parts.push(f.file);
    parts.push(plural(tree.samples[i], 'sample'), share(tree.weight[i], total), `self ${share(tree.selfWeight[i], total)}`);
    if (searching && f.matches)
        parts.push('matches the search');
    return parts.join(', ');
}

function makeElement(i) {
    const e = element('div');
    e.dataset.frame = i;
    e.setAttribute('role', 'treeitem');
    e.setAttribute('aria-level', tree.depth[i] + 1);
    return e;
}

function drawFrame(i, left, width, top, pixels) {
    const f = functions[tree.fn[i]];
    const e = elements.get(i) || makeElement(i);
    let name = `frame ${f.colour.className}`;
    if (searching)
        name += f.matches ? ' match' : ' faded';
    if (i < zoomed)
        name += ' caller';
    e.className = name;
    e.style.left = `${100 * left}%`;
    e.style.width = `calc(${100 * width}% - 1px)`;
    e.style.top = `${top}px`;
    e.textContent = width * pixels >= LABEL_PIXELS ? labelOf(i) : '';
    e.tabIndex = i === current ? 0 : -1;
    e.setAttribute('aria-label', describe(i));
    e.setAttribute('aria-selected', i === zoomed);
    return e;
}

/* Puts the frames with their upper edge between first and last into the document, and no others. */
function draw(first, last) {
    const height = rowHeight(), pixels = area.clientWidth;
    const gone = new Set(elements.keys());
    const added = document.createDocumentFragment();
    for (const [i, left, width] of shown) {
        const top = rowOf(i) * height;
        if (i !== current && (top < first || top > last))
            continue;
        const e = drawFrame(i, left, width, top, pixels);
        if (!gone.delete(i)) {
            elements.set(i, e);
            added.append(e);
        }
    }
    for (const i of gone) {
        elements.get(i).remove();
        elements.delete(i);
    }
    area.append(added);
}

function drawInView() {
    const margin = MARGIN_ROWS * rowHeight();
    draw(chart.scrollTop - margin, chart.scrollTop + chart.clientHeight + margin);
}

function scrollTo(i) {
    const height = rowHeight(), top = rowOf(i) * height;
    if (top < chart.scrollTop)
        chart.scrollTop = top;
    else if (top + height > chart.scrollTop + chart.clientHeight)
        chart.scrollTop = top + height - chart.clientHeight;
}

function update() {
    hideTip();
    layOut();
    scrollTo(current);
    drawInView();
}

/* Before the next picture, and once, however often it is asked for until then. */
const scheduled = new Set();
function schedule(work) {
    if (scheduled.has(work))
        return;
    scheduled.add(work);
    requestAnimationFrame(() => {
        scheduled.delete(work);
        work();
    });
}

/* ---- zoom ---- */

function pathItem(i) {
    const item = element('li');
    if (i < 0) {
        item.textContent = '…';
        item.title = 'more callers';
    } else if (i === zoomed) {
        item.textContent = labelOf(i);
        item.setAttribute('aria-current', 'true');
    } else {
        const button = element('button', '', labelOf(i));
        button.type = 'button';
        button.dataset.frame = i;
        item.append(button);
    }
    return item;
}

function showPath() {
    let path = [...ancestors(zoomed), zoomed];
    if (path.length > 7)
        path = [...path.slice(0, 2), -1, ...path.slice(-4)];
    byId('path').firstElementChild.replaceChildren(...path.map(pathItem));
    byId('reset').disabled = zoomed === 0;

    const parts = [plural(tree.samples[zoomed], 'sample')];
    if (weighted)
        parts.push(`${weightText(tree.weight[zoomed])} ${weightTitle}`);
    if (zoomed !== 0)
        parts.push(`${share(tree.weight[zoomed], total)} of all`, `self ${share(tree.selfWeight[zoomed], total)}`);
    byId('summary').textContent = parts.join(' · ');
}

function zoom(i) {
    const hadFocus = area.contains(document.activeElement);
    zoomed = i;
    current = i;
    showPath();
    showMatches();
    update();
    if (hadFocus)
        elements.get(current).focus({ preventScroll: true });
}

function focusFrame(i) {
    current = i;
    update();
    elements.get(i).focus({ preventScroll: true });
    showTip(i);
}

/* ---- search ---- */

/* Returns a test for strings, null for an empty search; throws on a bad regular expression. */
function makeTest(text, regex) {
    if (text === '')
        return null;
    if (regex) {
        const expression = new RegExp(text, 'i');
        return s => expression.test(s);
    }
    const wanted = text.toLowerCase();
    return s => s.toLowerCase().includes(wanted);
}

/* A stack counts once, however many of its frames match. */
function sumMatches(root) {
    const sum = { frames: 0, samples: 0, weight: 0 };
    let counted = ancestors(root).some(a => functions[tree.fn[a]].matches) ? tree.end[root] : 0;
    if (counted) {
        sum.samples = tree.samples[root];
        sum.weight = tree.weight[root];
    }
    for (let i = root; i < tree.end[root]; i++) {
        if (!functions[tree.fn[i]].matches)
            continue;
        sum.frames++;
        if (i < counted)
            continue;
        counted = tree.end[i];
        sum.samples += tree.samples[i];
        sum.weight += tree.weight[i];
    }
    return sum;
}

function showMatches(problem) {
    const out = byId('matches');
    out.hidden = !searching && !problem;
    if (problem || !searching) {
        out.textContent = problem || '';
        return;
    }
    const all = sumMatches(0), unseen = info.leftOut > 0 ? ', without what is left out' : '';
    if (all.frames === 0) {
        out.textContent = `No match${unseen}`;
        return;
    }
    let text = `${plural(all.frames, 'frame')} match${all.frames === 1 ? 'es' : ''}: ` +
        `${count(all.samples)} of ${plural(tree.samples[0], 'sample')}, ${share(all.weight, total)}`;
    if (weighted)
        text += ` of ${weightTitle}`;
    if (zoomed !== 0)
        text += ` (${share(sumMatches(zoomed).weight, tree.weight[zoomed])} of what is zoomed to)`;
    out.textContent = text + unseen;
}

function search() {
    const input = byId('search');
    let test = null, problem;
    try {
        test = makeTest(input.value, byId('regex').checked);
    } catch (e) {
        problem = `Not a regular expression: ${e.message}`;
    }
    input.setAttribute('aria-invalid', problem !== undefined);
    searching = test !== null;
    for (const f of functions)
        f.matches = searching && (test(f.name) || test(f.file));
    showMatches(problem);
    drawInView();
}

function focusLargestMatch() {
    search(); /* what was typed just now may still be scheduled */
    let best = -1;
    for (let i = zoomed; i < tree.end[zoomed]; i++)
        if (functions[tree.fn[i]].matches && (best < 0 || tree.weight[i] > tree.weight[best]))
            best = i;
    if (searching && best >= 0)
        focusFrame(best);
}

/* ---- the tooltip ---- */

function tipRow(title, samples, weight, className) {
    const row = element('tr', className);
    const head = element('th', '', title);
    head.scope = 'row';
    row.append(head, element('td', '', count(samples)));
    if (weighted)
        row.append(element('td', '', weightText(weight)));
    row.append(element('td', '', share(weight, total)));
    if (zoomed !== 0)
        row.append(element('td', '', share(weight, tree.weight[zoomed])));
    return row;
}

function fillTip(i) {
    const f = functions[tree.fn[i]];
    const table = element('table'), head = element('tr');
    for (const title of ['', 'samples', ...(weighted ? [weightTitle] : []), 'of all', ...(zoomed !== 0 ? ['of zoom'] : [])])
        head.append(element(title ? 'th' : 'td', '', title));
    table.append(head, tipRow('total', tree.samples[i], tree.weight[i], ''),
        tipRow('self', tree.selfSamples[i], tree.selfWeight[i], tree.selfSamples[i] > 0 ? 'self' : 'none'));

    /* Left-out callees show as a gap that is not self time. */
    const gap = tree.weight[i] - tree.selfWeight[i] - tree.filled[i];
    if (info.leftOut > 0 && gap > 0)
        table.append(tipRow('left out', children(i).reduce((n, c) => n - tree.samples[c], tree.samples[i] - tree.selfSamples[i]), gap, 'none'));

    tip.replaceChildren(element('p', 'name', labelOf(i)));
    if (f.kernel || f.file)
        tip.append(element('p', 'file', [f.file, f.kernel ? 'kernel' : ''].filter(Boolean).join(' · ')));
    tip.append(table);
}

/* Beside the pointer, or below (else above) the frame. */
function placeTip(i, pointer) {
    const box = elements.get(i).getBoundingClientRect();
    const at = pointer ? { x: pointer.clientX + 14, below: pointer.clientY + 18, above: pointer.clientY - 10 }
        : { x: box.left, below: box.bottom + 6, above: box.top - 6 };
    const x = Math.max(8, Math.min(at.x, document.documentElement.clientWidth - tip.offsetWidth - 8));
    const fits = at.below + tip.offsetHeight <= innerHeight - 8;
    tip.style.left = `${x}px`;
    tip.style.top = `${fits ? at.below : Math.max(8, at.above - tip.offsetHeight)}px`;
}

function showTip(i, pointer) {
    fillTip(i);
    tip.hidden = false;
    placeTip(i, pointer);
}

function hideTip() {
    tip.hidden = true;
}

/* ---- input ---- */

function frameAt(target) {
    const e = target instanceof Element ? target.closest('[data-frame]') : null;
    return e ? Number(e.dataset.frame) : -1;
}

/* Where a key leads from the current frame, -1: nowhere. */
function neighbour(key) {
    const inwards = upwards ? 'ArrowUp' : 'ArrowDown';
    if (key === 'Home')
        return 0;
    if (key === inwards)
        return children(current)[0] ?? -1;
    if (key === 'ArrowUp' || key === 'ArrowDown')
        return tree.parent[current];
    const siblings = tree.parent[current] >= 0 && current !== zoomed ? children(tree.parent[current]) : [];
    return siblings[siblings.indexOf(current) + (key === 'ArrowRight' ? 1 : -1)] ?? -1;
}

function onFrameKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey)
        return;
    if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault();
        zoom(current);
    } else if (['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight', 'Home'].includes(event.key)) {
        event.preventDefault();
        const next = neighbour(event.key);
        if (next < 0)
            return;
        /* Out of what is zoomed to: its caller becomes what is shown. */
        if (next < zoomed || next >= tree.end[zoomed])
            zoom(next);
        focusFrame(next);
    }
}

function onPageKey(event) {
    const input = byId('search');
    if (event.key === 'Escape') {
        hideTip();
        if (event.target === input && input.value !== '') {
            event.preventDefault();
            input.value = '';
            search();
        } else if (tree.n) {
            zoom(0);
        }
    } else if (event.key === '/' && event.target !== input && !event.ctrlKey && !event.altKey && !event.metaKey) {
        event.preventDefault();
        input.select();
        input.focus();
    }
}

function setDirection(up) {
    upwards = up;
    byId('flame').setAttribute('aria-pressed', up);
    byId('icicle').setAttribute('aria-pressed', !up);
    update();
}

function listen() {
    area.addEventListener('click', event => {
        const i = frameAt(event.target);
        if (i < 0)
            return;
        zoom(i);
        elements.get(i).focus({ preventScroll: true });
    });
    area.addEventListener('pointermove', event => {
        const i = frameAt(event.target);
        if (i < 0 || event.pointerType === 'touch')
            hideTip();
        else
            showTip(i, event);
    });
    area.addEventListener('pointerleave', hideTip);
    area.addEventListener('focusout', hideTip);
    area.addEventListener('keydown', onFrameKey);
    document.addEventListener('keydown', onPageKey);
    byId('path').addEventListener('click', event => {
        const i = frameAt(event.target);
        if (i >= 0)
            zoom(i);
    });
    byId('reset').addEventListener('click', () => zoom(0));
    byId('flame').addEventListener('click', () => setDirection(true));
    byId('icicle').addEventListener('click', () => setDirection(false));
    byId('search').addEventListener('input', () => schedule(search));
    byId('regex').addEventListener('change', search);
    byId('search').addEventListener('keydown', event => {
        if (event.key === 'Enter')
            focusLargestMatch();
    });
    chart.addEventListener('scroll', () => schedule(drawInView));
    addEventListener('resize', () => schedule(update));
    addEventListener('beforeprint', () => draw(-Infinity, Infinity));
    addEventListener('afterprint', drawInView);
}

/* ---- what stands around the chart ---- */

function fact(title, text, warn) {
    const box = element('div', warn ? 'warn' : '');
    box.append(element('dt', '', title), element('dd', '', text));
    byId('facts').append(box);
}

function dateText(ms) {
    const date = new Date(ms);
    return isNaN(date) ? 'unknown' : `${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

function eventText() {
    if (!info.event)
        return 'unknown';
    return info.byPeriod ? `${info.event}, every ${count(info.rate)} ${info.unit}` : `${info.event}, ${count(info.rate)} Hz`;
}

function showFacts() {
    const samples = tree.n ? tree.samples[0] : 0;
    const command = info.command || 'All processes of mine, or by PID';
    document.title = `${command.slice(0, 80)} – flame graph`;
    byId('command').textContent = command;
    fact('Host', info.kernel ? `${info.host} (${info.kernel})` : info.host);
    fact('Recorded', dateText(info.start));
    fact('Duration', info.finished ? time(info.duration) : `${time(info.duration)}, not finished`, !info.finished);
    if (info.endedWhy)
        fact('Sampling ended', `after ${time(info.ended)}: ${info.endedWhy}`, true);
    fact('Event', eventText());
    fact('Samples', samples === info.recorded ? count(samples) : `${count(samples)} of ${count(info.recorded)} recorded`);
    fact('Lost', info.lost > 0 ? `${count(info.lost)} (${share(info.lost, info.taken)})` : '0', info.lost > 0);
    fact('Truncated stacks', share(info.truncated, samples), info.truncated > samples / 10);
}

function showNotes() {
    const notes = [];
    if (info.leftOut > 0)
        notes.push(`${plural(info.leftOut, 'frame')} of at most ${share(info.leftOutMax, total)} each ` +
            `${info.leftOut === 1 ? 'is' : 'are'} left out to keep this page small.`);
    if (total > 0 && info.badFramePointers > 0.3 * info.emitted)
        notes.push('Many stacks are cut short because programs or libraries were built without frame pointers; ' +
            'building them with -fno-omit-frame-pointer helps.');
    byId('notes').textContent = notes.join(' ');
    byId('maker').textContent = `Made by Ringside ${info.version}.`;
}

showFacts();
showNotes();
if (total > 0) {
    assignColours();
    listen();
    showPath();
    layOut();
    chart.scrollTop = chart.scrollHeight; /* to the root */
    drawInView();
} else {
    byId('tools').hidden = byId('keys').hidden = true;
    chart.replaceChildren(element('p', '', 'No samples'));
    chart.firstElementChild.id = 'empty';
}

})();
