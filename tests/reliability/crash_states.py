"""Possible states of a file system after a power loss, derived from a log of the calls that changed it.

tests/support/faulty_files writes the log. Few guarantees are assumed, as in ALICE (Pillai et al. 2014): data is durable
after fsync of its file, and a name after fsync of its directory. A rename within a directory is atomic. Every other
change, and every block of a long write, may be present or missing independently: changes reach the disk in any order.
"""

import collections
import random
from pathlib import Path

BLOCK = 4096
NEVER = float("inf")


class Folder:
    def __init__(self):
        self.entries = {}  # after all changes


class File:
    pass


class Names(collections.namedtuple("Names", "folder changes")):
    """Names in a directory that are atomically assigned to other files, or to None."""
    target = property(lambda self: self.folder)


class Data(collections.namedtuple("Data", "file offset content")):
    target = property(lambda self: self.file)


class Length(collections.namedtuple("Length", "file bytes")):
    target = property(lambda self: self.file)


class Log:
    """`changes`: (time of the call, time of the fsync that made it durable, change); `saved`: (time, step)."""

    def __init__(self, path):
        self.changes, self.saved, self.length = [], [], 0
        self._pending = collections.defaultdict(list)  # indices into `changes`, by target
        self._known, self.root = {}, Folder()
        data, at = Path(path).read_bytes(), 0
        while at < len(data):
            end = data.index(b"\n", at)
            word, *fields = data[at:end].decode().split("\t")
            at = end + 1
            content = b""
            if word == "write":
                content = data[at:at + int(fields[2])]
                at += len(content)
            getattr(self, "_" + word)(*fields, *([content] if word == "write" else []))
            self.length += 1

    def _find(self, path):
        """Returns the directory of a path, and its name there."""
        *folders, name = path.split("/")
        folder = self.root
        for each in folders:
            folder = folder.entries[each]
        return folder, name

    def _change(self, change):
        if isinstance(change, Names):
            change.folder.entries.update(change.changes)
        self._pending[change.target].append(len(self.changes))
        self.changes.append([self.length, NEVER, change])

    def _name(self, path, inode, found):
        self._known[inode] = found
        folder, name = self._find(path)
        self._change(Names(folder, {name: found}))

    def _root(self, inode):
        self._known[inode] = self.root

    def _mkdir(self, path, inode):
        self._name(path, inode, Folder())

    def _create(self, path, inode):
        self._name(path, inode, File())

    def _write(self, inode, offset, _, content):
        self._change(Data(self._known[inode], int(offset), content))

    def _truncate(self, inode, length):
        self._change(Length(self._known[inode], int(length)))

    def _rename(self, before, after, is_exchange=False):
        (folder, old), (other, new) = self._find(before), self._find(after)
        assert folder is other, "a rename from folder to folder"
        if old not in folder.entries:
            return  # created by stdio (config.yaml), whose calls are not logged: no state has it
        replaced = folder.entries.get(new) if is_exchange else None
        self._change(Names(folder, {old: replaced, new: folder.entries[old]}))

    def _exchange(self, before, after):
        self._rename(before, after, is_exchange=True)

    def _remove(self, path):
        folder, name = self._find(path)
        self._change(Names(folder, {name: None}))

    def _sync(self, inode):
        for number in self._pending.pop(self._known[inode], []):
            self.changes[number][1] = self.length

    def _mark(self, text):
        self.saved.append((self.length, int(text.removeprefix("saved "))))

    def saved_by(self, moment):
        """Returns the newest step that was reported as durable before `moment`; 0: none."""
        return max((step for when, step in self.saved if when < moment), default=0)

    def open_at(self, moment):
        """Returns the changes made before `moment` that no fsync had made durable."""
        return [number for number, (made, certain, _) in enumerate(self.changes) if made < moment <= certain]


def all_states(log, drawn, seed=1):
    """Returns descriptions of states, kind by kind: (kind, moment, which)."""
    moments = range(1, log.length + 1)
    open_at = {moment: log.open_at(moment) for moment in moments}
    states = [("all", moment, None) for moment in moments] + [("certain", moment, None) for moment in moments]
    for kind in "without", "alone":
        states += [(kind, moment, number) for moment in moments for number in open_at[moment]]
    for moment in moments:
        for number in open_at[moment]:
            change = log.changes[number][2]
            if isinstance(change, Data) and len(change.content) > BLOCK:
                states += [("torn", moment, (number, way)) for way in range(3)]
    source = random.Random(seed)
    waiting = [moment for moment in moments if len(open_at[moment]) > 1]
    states += [("drawn", source.choice(waiting), number) for number in range(drawn)]
    return states


def blocks(change):
    """Splits a write into writes of single blocks."""
    at = 0
    while at < len(change.content):
        count = BLOCK - (change.offset + at) % BLOCK
        yield Data(change.file, change.offset + at, change.content[at:at + count])
        at += count


def changes_of(log, state):
    """Yields the changes that have reached the disk, in the order of the calls."""
    kind, moment, which = state
    source = random.Random(f"{kind} {moment} {which}")
    share = source.choice((0.1, 0.5, 0.9))
    for number, (made, certain, change) in enumerate(log.changes):
        if made >= moment:
            return
        if certain < moment or kind == "all":
            yield change
        elif kind == "without" and number != which or kind == "alone" and number == which:
            yield change
        elif kind == "torn" and number != which[0]:
            yield change
        elif kind == "torn":
            parts = list(blocks(change))
            yield from (parts[:1], parts[1:], [part for part in parts if source.random() < 0.5])[which[1]]
        elif kind == "drawn" and source.random() < share:
            yield from blocks(change) if isinstance(change, Data) and source.random() < 0.5 else [change]


def tree_of(log, changes):
    """Returns the files on the disk: {path: bytes, or None for a directory}."""
    names, contents = collections.defaultdict(dict), collections.defaultdict(bytearray)
    for change in changes:
        if isinstance(change, Names):
            names[change.folder].update(change.changes)
        elif isinstance(change, Length):
            content = contents[change.file]
            del content[change.bytes:]
            content.extend(bytes(change.bytes - len(content)))
        else:
            content = contents[change.file]
            content.extend(bytes(max(0, change.offset - len(content))))
            content[change.offset:change.offset + len(change.content)] = change.content
    tree = {}

    def enter(folder, path):
        for name, found in names[folder].items():
            if isinstance(found, Folder):
                tree[path + name] = None
                enter(found, path + name + "/")
            elif found is not None:
                tree[path + name] = bytes(contents[found])
    enter(log.root, "")
    return tree


def write_tree(tree, folder):
    """Writes the files. Directories precede their contents."""
    for path, content in tree.items():
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)
