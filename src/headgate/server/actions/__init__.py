"""Actions: what people decide, once for the API and the console.

    done = await act(serving, principal, "release", {"entries": [7]}, because="…", request_key=…)
    shown = await preview(serving, principal, "revert", {"entry": 12})

An action is one function over the ledger. It needs a role and a reason; who did it is kept with it.
Under a key, asking again gives the first answer and does nothing: the key commits with the action.

action.py      what an action is
act.py         doing one, and looking at what it would do
quarantine.py  release, discard, undiscard
redrive.py     redrive, and redrive_pause, redrive_resume, redrive_stop
past.py        revert, reset, replay, replay_stop: what concerns the past
budget.py      budget_override
tokens.py      token_create, token_revoke
background.py  verifications that go on after the answer
routes.py      their addresses under /v1
"""

from .act import ACTIONS, Done, act, preview
from .action import Action

__all__ = ["ACTIONS", "Action", "Done", "act", "preview"]
