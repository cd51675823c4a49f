import { createServer } from 'node:http';
import { Ringtrue } from '@ringtrue/server';

const shop = 'http://127.0.0.1:3000';
// Remove allowSandbox when your project is live.
const ringtrue = new Ringtrue({ allowSandbox: true });

createServer(async (request, response) => {
  try {
    const { pathname, searchParams } = new URL(request.url, shop);
    if (pathname === '/') {
      const verification = await ringtrue.verifications.create({
        phone_number: '+990123456734', // from your sign-up form
        redirect_url: `${shop}/verified`,
      });
      // Your own server keeps the id in the user's session.
      const cookie = `verification=${verification.verification_id}; HttpOnly; SameSite=Lax`;
      response.writeHead(303, { location: verification.url, 'set-cookie': cookie }).end();
    } else if (pathname === '/verified') {
      const session = /(?:^|; )verification=([\w-]+)/.exec(request.headers.cookie ?? '')?.[1];
      const outcome = await ringtrue.verifications.redeem(session, searchParams);
      if (outcome.open) response.writeHead(303, { location: outcome.url }).end();
      else response.end(`Number verified: ${outcome.verified}\n`);
    } else response.writeHead(404).end();
  } catch (error) {
    console.error(error.message);
    response.writeHead(400).end('We cannot verify this number.\n');
  }
}).listen(3000, '127.0.0.1', () => console.log(`Open ${shop}/`));
