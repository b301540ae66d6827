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
