export {
  serve,
  launch,
  bus,
  self,
  reply,
  param,
  query,
  header,
  template,
  probe,
  version,
  MillraceError
} from './index.js'
