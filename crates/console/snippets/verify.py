import time

from ringtrue import Ringtrue

client = Ringtrue(allow_sandbox=True)
verification = client.verifications.create(phone_number="+990123456730")
print("Open this page, and confirm the phone:", verification["url"], flush=True)
while verification["status"] in ("ACCEPTED", "PENDING"):
    time.sleep(1)
    verification = client.verifications.get(verification["verification_id"])
print(verification["status"], "match:", verification.get("match"))
