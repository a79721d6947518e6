import Koa from 'koa'
import bodyParser from 'koa-bodyparser'
import Router from '@koa/router'
const app = new Koa()
const router = new Router()
router.post('/orders', (ctx) => {
  if (ctx.get('Authorization') !== 'Bearer t0ken') ctx.throw(401)
  ctx.status = 201
  ctx.body = { order: ctx.request.body.item, state: 'new' }
})
app.use(bodyParser()).use(router.routes())
app.listen(process.env.PORT || 3000)
