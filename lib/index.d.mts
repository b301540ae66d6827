export {
  serve,
  reply,
  param,
  query,
  header,
  template,
  probe,
  version,
  MillraceError
} from './index.js'

export type {
  Answer,
  Answers,
  Body,
  ErrorCode,
  ErrorHandler,
  Handler,
  HandlerResult,
  HeaderValue,
  HeadersInit,
  Limits,
  Method,
  MillraceRequest,
  MillraceResponse,
  ParamsOf,
  Placeholder,
  Probe,
  Reply,
  ReplyInit,
  ReplyTag,
  ReplyValue,
  Route,
  ServeOptions,
  Server,
  Template,
  Timeouts
} from './index.js'
