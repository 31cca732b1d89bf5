"""Asks a person for the missing options of a new tenant: its plan and its first Admin."""

from __future__ import annotations

from typing import NamedTuple

from allotment.capacity.pricing import format_money
from allotment.cli.prompts import ask, choose
from allotment.declared.kinds.members import User
from allotment.declared.kinds.plan import Plan
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import PLATFORM, name_error
from allotment.declared.values import format_size
from allotment.edits.declarations import Declarations
from allotment.problems import OperationRefused
from allotment.reports.sheets import Sheet, sanitize_value

_MAX_NAME_LENGTH = 32


class TenantAnswers(NamedTuple):
    """The plan of a new tenant and the identity of its first Admin. An empty text stands for an absent value."""

    plan: str
    admin: str
    login: str
    subject: str


def ask_tenant_options(declarations: Declarations, answers: TenantAnswers, *, needs_admin: bool) -> TenantAnswers:
    """Return the answers with those of a person. Given values are not asked for, and the Admin only if `needs_admin` is true.

    Raises OperationRefused if the platform has no plan.
    """
    if not answers.plan:
        answers = answers._replace(plan=_ask_plan(declarations))
    if not needs_admin:
        return answers
    return answers._replace(
        admin=ask("Name of the first Admin", None, _check_name),
        login=answers.login or ask("Login at the forge (empty: none)", "", lambda text: _check_identity("login", text)),
        subject=answers.subject
        or ask("`sub` of the ID token (empty: none)", "", lambda text: _check_identity("subject", text)),
    )


def _ask_plan(declarations: Declarations) -> str:
    names = declarations.list_names(Plan)
    if not names:
        raise OperationRefused("the platform has no Plan: `allot tariff add NAME` declares it")
    currency = declarations.find(Platform, PLATFORM, "platform").model.spec.billing.currency
    sheet = Sheet("PLAN", "INSTANCES", "STORAGE", f"{currency}/MONTH", "GPUS", long=("GPUS",))
    for name in names:
        spec = declarations.find(Plan, PLATFORM, name).model.spec
        gpus = ", ".join(f"{count} {model}" for model, count in sorted(spec.quota.gpus.items())) or "none"
        budget = format_money(spec.budget.per_month) if spec.budget else "no limit"
        cells = (name, spec.quota.instances, format_size(spec.quota.storage), budget, gpus)
        sheet.add_row(*map(sanitize_value, cells))
    return choose("Plan", sheet, names, names)


def _check_name(text: str) -> None:
    if wrong := name_error(text, _MAX_NAME_LENGTH):
        raise OperationRefused(wrong)


def _check_identity(field: str, text: str) -> None:
    if text:
        User.model_validate({"name": "ada", "role": "Admin", field: text})
