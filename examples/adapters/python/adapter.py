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
    js, key, me = nc.jetstream(), a.event_key or str(uuid.uuid4()), str(uuid.uuid4())
    # Asking for the bindings makes the durable consumer of this adapter kind.
    known = [b["id"] for b in (await ask(nc, "binding.list", {"adapter": a.adapter})).get("bindings", [])]
    if a.binding not in known:
        raise SystemExit(f"no binding {a.binding} of adapter {a.adapter}; there is: {known}")
    signal = {
        "specversion": "1.0", "type": "turnwright.signal.v1", "source": f"/adapters/{a.adapter}/{a.binding}",
        "id": key, "time": datetime.now(timezone.utc).isoformat(), "datacontenttype": "application/json",
        "data": {"channel": {"kind": "CHANNEL_KIND_DM", "id": a.channel}, "addressed": "ADDRESSED_DM",
                 "sender": {"id": a.sender, "displayName": a.sender}, "text": a.text,
                 "messageId": key, "orderKey": f"{time.time_ns():020d}"}}
    ack = await js.publish(f"tw.v1.signal.{a.adapter}.{a.binding}", json.dumps(signal).encode(),
                           headers={"Nats-Msg-Id": f"{a.binding}/{key}"})
    print(f"stored as {ack.stream} {ack.seq}{' (again)' if ack.duplicate else ''}", flush=True)
    deliveries = await js.pull_subscribe_bind(f"adapter-{a.adapter}", stream="DELIVERIES")
    end = time.monotonic() + a.timeout
    while (left := end - time.monotonic()) > 0:
        try:
            [msg] = await deliveries.fetch(1, timeout=left)
        except nats.errors.TimeoutError:
            continue
        d = json.loads(msg.data)
        if d["binding"] != a.binding or d["channel"]["id"] != a.channel:
            await msg.nak(delay=1)  # another adapter's; it shares the consumer
            continue
        receipt = {"deliveryId": d["deliveryId"]}
        begun = await ask(nc, "delivery.begin", receipt | {"adapterIncarnation": me})
        if begun.get("go"):
            print(d.get("text", ""), flush=True)  # the provider call
            receipt |= {"outcome": "DELIVERY_OUTCOME_SENT", "providerMessageId": str(uuid.uuid4())}
        elif begun.get("state") == "begun":  # by a process that died: this provider cannot tell
            receipt |= {"outcome": "DELIVERY_OUTCOME_UNKNOWN", "detail": "begun before, no read-back"}
        if "outcome" in receipt:
            await ask(nc, "delivery.receipt", receipt)
        await msg.ack()
        last = d.get("ordinal", 0) + 1 >= d.get("chunks", 1)
        if d.get("replyEventKey") == key and d.get("origin") == "reply" and last:
            await nc.drain()
            return 0
    await nc.close()
    return 1

p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
for name in "nats", "binding", "adapter", "channel", "sender", "text":
    p.add_argument(f"--{name}", required=True)
p.add_argument("--event-key", help="names the message: sending again under the same key changes nothing")
p.add_argument("--timeout", type=float, default=30, help="seconds to wait for the reply")
raise SystemExit(asyncio.run(run(p.parse_args())))
