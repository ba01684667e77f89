"""A chat adapter in one file: sends one message to an agent and prints its reply. Needs nats-py.

The contract it speaks is docs/adapters.md. `print` stands where a chat provider would be called.
"""
import argparse, asyncio, json, time, uuid
from datetime import datetime, timezone
import nats

async def ask(nc, what, question):
    answer = json.loads((await nc.request(f"tw.v1.rpc.{what}", json.dumps(question).encode(), timeout=5)).data)
    if "error" in answer:
        raise SystemExit(f"{what}: {answer['error']}")
    return answer

async def run(a):
    nc = await nats.connect(a.nats)
    js, key, me, end = nc.jetstream(), a.event_key or str(uuid.uuid4()), str(uuid.uuid4()), time.monotonic() + a.timeout
    known = await ask(nc, "binding.list", {"adapter": a.adapter})  # also makes the adapter's consumer
    if a.binding not in [b["id"] for b in known.get("bindings", [])]:
        raise SystemExit(f"adapter {a.adapter} has no binding {a.binding}, only: {known}")
    signal = {
        "specversion": "1.0", "type": "turnwright.signal.v1", "source": f"/adapters/{a.adapter}/{a.binding}",
        "id": key, "time": datetime.now(timezone.utc).isoformat(), "datacontenttype": "application/json",
        "data": {"channel": {"kind": "CHANNEL_KIND_DM", "id": a.channel}, "addressed": "ADDRESSED_DM",
                 "sender": {"id": a.sender, "displayName": a.sender}, "text": a.text,
                 "messageId": key, "orderKey": f"{time.time_ns():020d}"}}
    await js.publish(f"tw.v1.signal.{a.adapter}.{a.binding}", json.dumps(signal).encode(),
                     headers={"Nats-Msg-Id": f"{a.binding}/{key}"})  # returns once the stream has it
    deliveries = await js.pull_subscribe_bind(f"adapter-{a.adapter}", stream="DELIVERIES")
    while True:
        try:
            [msg] = await deliveries.fetch(1, timeout=max(end - time.monotonic(), 0.01))
        except nats.errors.TimeoutError:
            return 1
        d = json.loads(msg.data)
        if (d["binding"], d["channel"]["id"]) != (a.binding, a.channel):
            await msg.nak(delay=1)  # for another process of this adapter; they share the consumer
            continue
        begun = await ask(nc, "delivery.begin", {"deliveryId": d["deliveryId"], "adapterIncarnation": me})
        if begun.get("go"):  # else it is settled, or begun by another process: never sent twice
            print(d.get("text", ""), flush=True)  # the provider call
            await ask(nc, "delivery.receipt", {"deliveryId": d["deliveryId"], "outcome": "DELIVERY_OUTCOME_SENT",
                                               "providerMessageId": str(uuid.uuid4())})
        await msg.ack()
        last = d.get("ordinal", 0) + 1 >= d.get("chunks", 1)
        if d.get("replyEventKey") == key and d.get("origin") == "reply" and last:
            await nc.drain()  # sends the acknowledgement
            return 0

p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
for name in "nats", "binding", "adapter", "channel", "sender", "text":
    p.add_argument(f"--{name}", required=True)
p.add_argument("--event-key", help="names the message: sending it again under the same key changes nothing")
p.add_argument("--timeout", type=float, default=30, help="seconds to wait for the reply")
raise SystemExit(asyncio.run(run(p.parse_args())))
