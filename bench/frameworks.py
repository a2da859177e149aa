"""The first experiment as users of federated or private learning frameworks would do it: in Flower and with Opacus.

Both do what the peers do, worker by worker, so a size they can finish is a few rounds of one run. Starting them is not
counted: what is reported is the time of the rounds.
"""

import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from peers import Array, Job


class Finished(NamedTuple):
    """What a framework computed, and how long its rounds took."""

    x: Array  # (1, n, d)
    seconds: float


def _message(job: Job, i: int, t: int, x: Array, dual: Array) -> Array:
    """What worker i sends in round t."""
    n, m, d = job.A.shape
    A = -job.b[i][:, None] * job.A[i]
    gradient = A.T @ (1 / (1 + np.exp(-A @ x))) / (n * m)
    noise = job.deviations[t] * np.random.default_rng((i, t)).standard_normal(d)
    return np.asarray(x - job.step * (gradient + job.l2 / n * x + noise + dual))


def _receive(job: Job, message: Array, mean: Array, dual: Array) -> tuple[Array, Array]:
    """A worker's model and dual after the broadcast."""
    apart = message - mean
    z = message - job.step * apart
    shrunk = np.clip(np.abs(z) - job.step * job.weight / len(job.A), 0, job.bound)
    return np.copysign(shrunk, z), dual + apart


def flower(job: Job) -> Finished:
    """A simulation: a client a worker, which keeps its model and dual between rounds; a server that takes the mean."""
    # Neither Flower nor Ray should tell its makers of a benchmark.
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    app, clientapp, serverapp = (import_module(f"flwr.{name}") for name in ("app", "clientapp", "serverapp"))
    n, _, d = job.A.shape
    client, server = clientapp.ClientApp(), serverapp.ServerApp()
    found = np.empty((1, n, d))
    clock: list[float] = []

    @client.train()  # type: ignore[untyped-decorator]
    def train(request: Any, context: Any) -> Any:
        i, t = int(context.node_config["partition-id"]), int(request.content["at"]["round"])
        x: Array = np.zeros(d)
        dual: Array = np.zeros(d)
        if t > 0:
            message, dual = context.state["kept"].to_numpy_ndarrays()
            x, dual = _receive(job, message, request.content["mean"].to_numpy_ndarrays()[0], dual)
        if t < job.rounds:
            answer = _message(job, i, t, x, dual)
            context.state["kept"] = app.ArrayRecord([answer, dual])
        else:
            answer = x
        content = {"answer": app.ArrayRecord([answer]), "from": app.ConfigRecord({"worker": i})}
        return app.Message(content=app.RecordDict(content), reply_to=request)

    @server.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, context: Any) -> None:
        while len(nodes := list(grid.get_node_ids())) < n:
            time.sleep(0.1)
        answers = np.zeros((n, d))
        for t in range(job.rounds + 1):
            mean = app.ArrayRecord([answers.mean(axis=0)])
            content = app.RecordDict({"mean": mean, "at": app.ConfigRecord({"round": t})})
            requests = [app.Message(content=content, message_type="train", dst_node_id=node) for node in nodes]
            for reply in grid.send_and_receive(requests):
                answers[reply.content["from"]["worker"]] = reply.content["answer"].to_numpy_ndarrays()[0]
            clock.append(time.perf_counter())
        found[0] = answers

    import_module("flwr.simulation").run_simulation(server, client, num_supernodes=n)
    # From the first round's end, before which processes are started, to the last's.
    return Finished(found, clock[-1] - clock[0])


def opacus(job: Job) -> Finished:
    """A model and a private optimizer a worker; averaging, dual and prox beside them."""
    torch, library = import_module("torch"), import_module("opacus")
    optimizers = import_module("opacus.optimizers")
    dtype = {"float64": torch.float64, "float32": torch.float32}[job.dtype]
    n, m, d = job.A.shape
    A = torch.as_tensor(-job.b[:, :, None] * job.A).to(dtype)
    # No sample's gradient is as long: nothing is clipped, and the noise is what the job says.
    longest = 1.01 * float(np.linalg.norm(job.A, axis=-1).max())
    models, private = [], []
    for i in range(n):
        layer = torch.nn.Linear(d, 1, bias=False, dtype=dtype)
        torch.nn.init.zeros_(layer.weight)
        models.append(library.GradSampleModule(layer))
        plain = torch.optim.SGD(models[i].parameters(), lr=job.step / n)
        private.append(
            optimizers.DPOptimizer(
                plain,
                noise_multiplier=0.0,
                max_grad_norm=longest,
                expected_batch_size=m,
                generator=torch.Generator().manual_seed(i),
            )
        )
    dual = torch.zeros(n, d, dtype=dtype)
    began = time.perf_counter()
    for deviation in job.deviations:
        for i, (model, optimizer) in enumerate(zip(models, private, strict=True)):
            optimizer.noise_multiplier = float(deviation) * n * m / longest
            optimizer.zero_grad()
            torch.nn.functional.softplus(model(A[i])).mean().backward()
            (weight,) = model.parameters()
            pulled = job.step * (job.l2 / n * weight.detach() + dual[i])
            optimizer.step()
            with torch.no_grad():
                weight.sub_(pulled)  # the message
        with torch.no_grad():
            messages = torch.cat([weight for model in models for weight in model.parameters()])
            apart = messages - messages.mean(dim=0)
            dual += apart
            z = messages - job.step * apart
            x = torch.copysign((z.abs() - job.step * job.weight / n).clamp(0, job.bound), z)
            for model, row in zip(models, x, strict=True):
                for weight in model.parameters():
                    weight.copy_(row[None])
    seconds = time.perf_counter() - began
    return Finished(np.asarray(x.numpy())[None], seconds)


FRAMEWORKS: dict[str, Callable[[Job], Finished]] = {"flwr": flower, "opacus": opacus}
