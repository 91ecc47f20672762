"""A comment of the web app, as the notification of it needs it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Comment(BaseModel):
    """One row of the app's table `comment`.

    Attributes:
        id: the row's key.
        post_id: the post that it comments on.
        author: name of the author of the comment.
        body: its text.
        recipient: mail address of the person to notify.
    """

    model_config = ConfigDict(frozen=True)

    id: int
    post_id: int
    author: str
    body: str
    recipient: str
