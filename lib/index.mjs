export {
  serve,
  launch,
  bus,
  self,
  metrics,
  reply,
  param,
  query,
  header,
  template,
  probe,
  version,
  MillraceError
} from './index.js'
