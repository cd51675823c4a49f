import { createServer } from 'node:http';
import { Ringtrue } from '@ringtrue/server';
import { callbackHandler } from '@ringtrue/server/express';

// Remove allowSandbox when your project is live.
const ringtrue = new Ringtrue({ allowSandbox: true });
// Your own program saves the result, if it has created the id.
const save = ({ kind, id, data }) => console.log(kind, id, data.status, 'match:', data.match);
// The host of your callback URL.
const handler = callbackHandler(ringtrue, save, { host: '127.0.0.1:9099' });

createServer(handler).listen(9099, '127.0.0.1', () => console.log('Listening'));
