import { serve } from '@hono/node-server'
import { Hono } from 'hono'
const app = new Hono()
app.post('/orders', async (c) => {
  if (c.req.header('Authorization') !== 'Bearer t0ken') return c.json({ error: 'unauthorized' }, 401)
  return c.json({ order: (await c.req.json()).item, state: 'new' }, 201)
})
serve({ fetch: app.fetch, port: Number(process.env.PORT || 3000) })
