/**
 * Verify phone numbers with Ringtrue from your backend.
 *
 * @module
 */
export {
  type CallbackEvent,
  type CallbackHeaders,
  type CallbackOptions,
  type CallbackRequest,
  type Callbacks,
  MAX_CALLBACK_BYTES,
} from './callbacks.js';
export { Ringtrue } from './client.js';
export { type Deduplicator, MemoryDeduplicator, type MemoryDeduplicatorOptions } from './deduplication.js';
export {
  ApiError,
  AuthenticationError,
  CallbackError,
  type CallbackRejection,
  CodeInvalidError,
  ConfigurationError,
  ConnectionError,
  type ErrorCode,
  ForeignReturnError,
  NotFoundError,
  RateLimitError,
  RingtrueError,
  SandboxRefusedError,
} from './errors.js';
export type { CallbackHandlerOptions, CallbackListener } from './handler.js';
export type { List, ListOptions, Page, SearchOptions } from './list.js';
export type * from './management.js';
export type * from './openapi.js';
export type * from './resources.js';
export { type FieldComparisons, Filter, field, type SearchField, type SearchValue } from './search.js';
export type { CreateOptions, RequestOptions, RingtrueOptions, Scope, UpdateOptions } from './transport.js';
export type * from './verifications.js';
