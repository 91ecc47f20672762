"""Lifecycles that are not deterministic. Each has one line that is refused; its comment says what to use instead."""

from __future__ import annotations

import asyncio
import datetime
import os
import random
import secrets
import socket
import subprocess
import threading
import time
import uuid
from collections import Counter
from datetime import datetime as moment
from enum import StrEnum
from pathlib import Path
from random import choice as pick
from typing import ClassVar

import httpx
from temporalio import workflow

from perdure import Lifecycle, state

SEEN: list[str] = []
TIMES: Counter[str] = Counter()
STARTED = 0


class Stage(StrEnum):
    """The states of all of them."""

    NEW = "new"
    DONE = state("done", final=True)


@workflow.defn(name="clock")
class Clock(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=str(time.time()))  # refused: workflow.time()


@workflow.defn(name="today")
class Today(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=str(datetime.date.today()))  # refused: workflow.now()


@workflow.defn(name="renamed")
class Renamed(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=str(moment.now()))  # refused: workflow.now()


@workflow.defn(name="sleeper")
class Sleeper(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        time.sleep(1)  # refused: workflow.sleep()  # noqa: ASYNC251


@workflow.defn(name="dice")
class Dice(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        if random.random() < 0.5:  # refused: workflow.random()
            await self.enter(Stage.DONE)


@workflow.defn(name="picker")
class Picker(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=pick("ab"))  # refused: workflow.random()


@workflow.defn(name="secret")
class Secret(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=secrets.token_hex(4))  # refused: workflow.random()


@workflow.defn(name="numbered")
class Numbered(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=str(uuid.uuid4()))  # refused: workflow.uuid4()


@workflow.defn(name="environment")
class Environment(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=os.environ["HOME"])  # refused: with the input


@workflow.defn(name="getenv")
class Getenv(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=os.getenv("HOME"))  # refused: with the input


@workflow.defn(name="file")
class File(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        with open(given) as file:  # refused: effect or step  # noqa: PTH123, ASYNC230
            await self.enter(Stage.DONE, why=file.read())


@workflow.defn(name="path")
class APath(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=Path.cwd().name)  # refused: effect or step


@workflow.defn(name="request")
class Request(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        async with httpx.AsyncClient() as client:  # refused: effect or step
            await client.get(given)


@workflow.defn(name="network")
class Network(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=socket.gethostname())  # refused: effect or step


@workflow.defn(name="program")
class Program(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        subprocess.run(["true"], check=True)  # refused: effect or step


@workflow.defn(name="thread")
class Thread(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        threading.Thread(target=print).start()  # refused: asyncio.create_task()


@workflow.defn(name="to-thread")
class ToThread(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await asyncio.to_thread(print, given)  # refused: effect or step


@workflow.defn(name="list")
class AList(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        SEEN.append(given)  # refused: in an attribute


@workflow.defn(name="count")
class Count(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        TIMES[given] += 1  # refused: in an attribute


@workflow.defn(name="global")
class Global(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        global STARTED
        STARTED += 1  # refused: in an attribute


@workflow.defn(name="class-attribute")
class ClassAttribute(Lifecycle[str, Stage]):
    kept: ClassVar[list[str]] = []

    @workflow.run
    async def run(self, given: str) -> None:
        self.kept.append(given)  # refused: in an attribute


@workflow.defn(name="handler")
class Handler(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.wait_for(lambda: False)

    @workflow.signal
    def note(self, text: str) -> None:
        self.at = time.monotonic()  # refused: workflow.time()


@workflow.defn(name="condition")
class Condition(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.wait_for(lambda: time.time() > 0)  # refused: workflow.time()


@workflow.defn(name="indirect")
class Indirect(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=_first(given))


def _first(given: str) -> str:
    return _second(given)


def _second(given: str) -> str:
    return f"{given} {time.time()}"  # refused: workflow.time()


class Watch:
    """Of the application."""

    def __init__(self) -> None:
        self.began = time.perf_counter()  # refused: workflow.time()


@workflow.defn(name="model")
class AModel(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE, why=str(Watch().began))
