export { RingtrueVerify, type UrlSource } from './element.js';
export {
  type Mode,
  type OpenOptions,
  type OpenVerification,
  openVerification,
  type Report,
  type Result,
  type VerificationUrl,
} from './open.js';
