"""The SQLite schema, as a numbered list that is only appended to. ``PRAGMA user_version`` is the version of a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE conversations (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, created REAL NOT NULL, touched REAL NOT NULL,
        expires REAL NOT NULL, turns INTEGER NOT NULL, bytes INTEGER NOT NULL, agreed BLOB,
        peer_token TEXT, ended INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE INDEX conversations_by_owner ON conversations (owner, touched);
    CREATE INDEX conversations_by_expiry ON conversations (expires);
    CREATE INDEX conversations_by_token ON conversations (peer_token, owner) WHERE peer_token IS NOT NULL;
    CREATE TABLE turns (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, conversation TEXT NOT NULL, at REAL NOT NULL,
        agent TEXT NOT NULL, speaker TEXT NOT NULL, asked BLOB NOT NULL, answered BLOB NOT NULL
    );
    CREATE INDEX turns_by_conversation ON turns (conversation, number);
    CREATE TABLE audit (
        number INTEGER PRIMARY KEY, at REAL NOT NULL, line BLOB NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL
    );
    CREATE TABLE tasks (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, state TEXT NOT NULL, conversation TEXT NOT NULL,
        created REAL NOT NULL, updated REAL NOT NULL, expires REAL NOT NULL, node TEXT NOT NULL,
        lease REAL NOT NULL, body BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX tasks_by_owner ON tasks (owner, updated);
    CREATE INDEX tasks_by_lease ON tasks (lease) WHERE state IN ('submitted', 'working');
    CREATE TABLE task_events (
        task TEXT NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (task, number)
    ) WITHOUT ROWID;
    CREATE TABLE records (
        space TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, owner TEXT NOT NULL,
        expires REAL NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (space, key)
    ) WITHOUT ROWID;
    CREATE INDEX records_by_expiry ON records (expires) WHERE expires > 0;
    """,
    """
    ALTER TABLE tasks ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE tasks ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
    CREATE INDEX tasks_by_expiry ON tasks (expires);
    """,
    "ALTER TABLE tasks ADD COLUMN agent TEXT NOT NULL DEFAULT ''",
    # Counted for every submitted task; ended ones must not make that slower.
    "CREATE INDEX tasks_by_state ON tasks (owner, state)",
    # Nobody lists the conversations of all anonymous callers, and those are the majority.
    """
    DROP INDEX conversations_by_owner;
    CREATE INDEX conversations_by_owner ON conversations (owner, touched) WHERE owner <> 'anonymous';
    """,
    # The last written entry, kept separately, so that a missing end is noticed. A trigger maintains it, because a
    # process of an older version may write to the same file.
    """
    CREATE TABLE audit_head (number INTEGER NOT NULL, hash TEXT NOT NULL);
    INSERT INTO audit_head SELECT coalesce(max(number), 0),
        coalesce((SELECT hash FROM audit ORDER BY number DESC LIMIT 1), printf('%064d', 0)) FROM audit;
    CREATE TRIGGER audit_head_follows AFTER INSERT ON audit BEGIN
        UPDATE audit_head SET number = new.number, hash = new.hash;
    END;
    """,
    # Inboxes, and conversations between agents.
    """
    CREATE TABLE letters (
        number INTEGER PRIMARY KEY AUTOINCREMENT, box TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL,
        at REAL NOT NULL, expires REAL NOT NULL, sender TEXT NOT NULL, lane TEXT NOT NULL, priority INTEGER NOT NULL,
        member TEXT NOT NULL, deliveries INTEGER NOT NULL DEFAULT 0, holder TEXT NOT NULL DEFAULT '',
        lease REAL NOT NULL DEFAULT 0
    );
    CREATE UNIQUE INDEX letters_by_id ON letters (box, member, id);
    CREATE INDEX letters_by_turn ON letters (box, member, priority DESC, number);
    CREATE INDEX letters_by_lane ON letters (box, member, lane) WHERE lane <> '';
    CREATE INDEX letters_by_expiry ON letters (expires);
    CREATE TABLE dead_letters (
        number INTEGER PRIMARY KEY AUTOINCREMENT, box TEXT NOT NULL, body BLOB NOT NULL, reason TEXT NOT NULL,
        attempts INTEGER NOT NULL, at REAL NOT NULL, member TEXT NOT NULL
    );
    CREATE INDEX dead_letters_by_box ON dead_letters (box, number);
    CREATE TABLE dialogues (
        conversation TEXT NOT NULL, initiator TEXT NOT NULL, participant TEXT NOT NULL, protocol TEXT NOT NULL,
        state TEXT NOT NULL, opener TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,
        expires REAL NOT NULL, cancel TEXT NOT NULL, timer TEXT NOT NULL, due REAL NOT NULL,
        version INTEGER NOT NULL, detail BLOB NOT NULL, PRIMARY KEY (conversation, initiator, participant)
    );
    CREATE INDEX dialogues_by_due ON dialogues (due) WHERE due > 0;
    CREATE INDEX dialogues_by_expiry ON dialogues (expires);
    CREATE INDEX dialogues_open ON dialogues (participant) WHERE timer <> '';
    CREATE TABLE utterances (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, sender TEXT NOT NULL, receiver TEXT NOT NULL,
        conversation TEXT NOT NULL, initiator TEXT NOT NULL, participant TEXT NOT NULL, performative TEXT NOT NULL,
        at REAL NOT NULL, expires REAL NOT NULL, body BLOB NOT NULL, reply_with TEXT NOT NULL
    );
    CREATE UNIQUE INDEX utterances_by_id ON utterances (id, sender, receiver);
    CREATE INDEX utterances_by_conversation ON utterances (conversation, seq);
    CREATE INDEX utterances_by_reference ON utterances (reply_with) WHERE reply_with <> '';
    CREATE INDEX utterances_by_expiry ON utterances (expires);
    """,
    """
    ALTER TABLE tasks ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX tasks_by_priority ON tasks (priority DESC, created, id) WHERE state IN ('submitted', 'working');
    """,
    # A letter that carries a message of a conversation continues with it: ``said`` is the message's id.
    """
    ALTER TABLE letters ADD COLUMN said TEXT NOT NULL DEFAULT '';
    CREATE VIEW whole_letters AS SELECT number, box, id,
        iif(said = '', body, CAST(body || (SELECT message.body FROM utterances AS message WHERE message.id = said
            AND message.sender = letters.sender AND message.receiver = box) AS BLOB)) AS body,
        at, expires, sender, lane, priority, member, deliveries, holder, lease FROM letters;
    """,
)


def statements(script: str) -> Iterator[str]:
    """The statements of a script; a trigger, which contains some, is one."""
    statement = ""
    for piece in script.split(";"):
        statement += f"{piece};"
        if sqlite3.complete_statement(statement):
            if statement.strip(" \n;"):
                yield statement
            statement = ""
