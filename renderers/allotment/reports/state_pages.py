"""Describe each state of a status: the manual pages of `allot explain STATE`.

The documentation of `allot status` has the same pages as a table.
"""

from __future__ import annotations

from allotment import conditions as word

STATE_PAGES: dict[str, str] = {
    word.MERGED: "Merged, but not published yet. WHY shows whether nothing was published so far, the publisher lags, or"
    " something is invalid.",
    word.KEPT: "An earlier version stays published, because the tenant is retained. WHY shows the reason and the first problem.",
    word.REMOVING: "Removed from Git, but still published. WHY shows the reason.",
    word.OVERTAKEN: "The published commit is newer than this clone. Run `git pull`.",
    word.PUBLISHED: "Published, but not yet reported by the cluster. Argo CD has not applied it, or no reporter"
    " watches the cluster.",
    word.INIT: "The units are allocated, but the pods have not started yet.",
    word.STARTING: "The container has started, but the probe has not succeeded yet. JSON calls this state Ready.",
    word.READY: "The storage or snapshot can be used. In JSON also an instance after the start of its container.",
    word.RUNNING: "The probe succeeds, or the program of a preparation runs.",
    word.STOPPED: "The declaration stops it, it is on hold, or its tenant is suspended.",
    word.WAITING: "Waiting for a free unit, for the preparation of a storage, or for a node.",
    word.PENDING: "The storage or snapshot has no volume yet.",
    word.PREPARING: "The preparation of the storage is running.",
    word.FAILED: "Failed. WHY shows the fix.",
    word.LOST: "The volume of the storage no longer exists.",
}
