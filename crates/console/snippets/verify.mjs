import { setTimeout } from 'node:timers/promises';
import { Ringtrue } from '@ringtrue/server';

const ringtrue = new Ringtrue({ allowSandbox: true });
let verification = await ringtrue.verifications.create({ phone_number: '+990123456728' });
console.log('Open this page, and confirm the phone:', verification.url);
while (['ACCEPTED', 'PENDING'].includes(verification.status)) {
  await setTimeout(1000);
  verification = await ringtrue.verifications.get(verification.verification_id);
}
console.log(verification.status, 'match:', verification.match);
