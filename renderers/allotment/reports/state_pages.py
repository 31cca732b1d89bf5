"""Describe each state of a status: the manual pages of `allot explain STATE`. The documentation of status has them as a
table.
"""

from __future__ import annotations

from allotment import conditions as word

STATE_PAGES: dict[str, str] = {
    word.MERGED: "It is merged and not published yet. WHY says whether nothing was published so far, the publisher lags, or"
    " something is invalid.",
    word.KEPT: "Its merged version is not published, because its tenant is retained; an earlier version stays published. WHY has the reason and the first problem.",
    word.REMOVING: "It is removed from Git and still published. WHY says why.",
    word.OVERTAKEN: "A later commit is published than this clone has. Run `git pull`.",
    word.PUBLISHED: "It is published, and its cluster does not show it yet. Argo CD has not applied it, or no reporter"
    " reports the cluster.",
    word.INIT: "Its units are held, and its pods have not started.",
    word.STARTING: "Its container has started, and its probe is not answered yet. JSON calls this state Ready.",
    word.READY: "A storage or snapshot that can be used. In JSON, an instance after the start of its container.",
    word.RUNNING: "Its probe is answered, or the program of a preparation runs.",
    word.STOPPED: "It is declared stopped, its tenant is suspended, or its version is revoked.",
    word.WAITING: "It waits for a unit, for a storage that is prepared, or for its node.",
    word.PENDING: "The storage or snapshot has no volume yet.",
    word.PREPARING: "The preparation of the storage runs.",
    word.FAILED: "It does not work. WHY says what to do.",
    word.LOST: "The volume of the storage is gone.",
}
