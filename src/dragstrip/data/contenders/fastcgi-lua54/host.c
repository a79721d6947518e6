/* host APP.lua: serves a WSAPI application over FastCGI from Lua 5.4, for which WSAPI has no host of its own.
 *
 * One request at a time, on the listening socket that spawn-fcgi leaves as descriptor 0. The file must return a
 * function of the environment that returns status, headers and an iterator over the body's pieces.
 */
#include <fcgiapp.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#define MOST_INPUT (1 << 20)

static void push_environment(lua_State *L, char **variables)
{
    lua_newtable(L);
    for (; *variables; variables++) {
        const char *equals = strchr(*variables, '=');
        if (!equals)
            continue;
        lua_pushlstring(L, *variables, (size_t)(equals - *variables));
        lua_pushstring(L, equals + 1);
        lua_rawset(L, -3);
    }
}

/* `input:read(length)` of the environment: at most so many bytes of the request's body. */
static int read_input(lua_State *L)
{
    FCGX_Request *request = lua_touserdata(L, lua_upvalueindex(1));
    luaL_Buffer buffer;
    lua_Integer length = luaL_checkinteger(L, 2);
    luaL_argcheck(L, length >= 0 && length <= MOST_INPUT, 2, "too long");
    char *room = luaL_buffinitsize(L, &buffer, (size_t)length);
    luaL_pushresultsize(&buffer, (size_t)FCGX_GetStr(room, (int)length, request->in));
    return 1;
}

/* Makes the table that stands for the body of every request, on the stack. */
static void push_input(lua_State *L, FCGX_Request *request)
{
    lua_newtable(L);
    lua_pushlightuserdata(L, request);
    lua_pushcclosure(L, read_input, 1);
    lua_setfield(L, -2, "read");
}

static void write_text(lua_State *L, int index, FCGX_Stream *out)
{
    size_t length;
    const char *text = lua_tolstring(L, index, &length);
    if (text)
        FCGX_PutStr(text, (int)length, out);
}

static void write_head(lua_State *L, int status, int headers, FCGX_Stream *out)
{
    FCGX_FPrintF(out, "Status: %d\r\n", (int)lua_tointeger(L, status));
    for (lua_pushnil(L); lua_next(L, headers); lua_pop(L, 1)) {
        write_text(L, -2, out); /* keys are texts, so that lua_next isn't confused */
        FCGX_PutS(": ", out);
        write_text(L, -1, out);
        FCGX_PutS("\r\n", out);
    }
    FCGX_PutS("\r\n", out);
}

/* Answers one request; 0, or the reason is on the stack. */
static int answer(lua_State *L, FCGX_Request *request)
{
    lua_pushvalue(L, 1);
    push_environment(L, request->envp);
    lua_pushvalue(L, 2);
    lua_setfield(L, -2, "input");
    if (lua_pcall(L, 1, 3, 0))
        return 1;
    write_head(L, 3, 4, request->out);
    for (;;) {
        lua_pushvalue(L, 5);
        if (lua_pcall(L, 0, 1, 0))
            return 1;
        if (lua_isnil(L, -1))
            return 0;
        write_text(L, -1, request->out);
        lua_pop(L, 1);
    }
}

int main(int argc, char **argv)
{
    lua_State *L = luaL_newstate();
    FCGX_Request request;

    if (argc != 2 || !L || FCGX_Init() || FCGX_InitRequest(&request, 0, 0)) {
        fprintf(stderr, "usage: spawn-fcgi … -- %s APP.lua\n", argv[0]);
        return 2;
    }
    luaL_openlibs(L);
    if (luaL_loadfile(L, argv[1]) || lua_pcall(L, 0, 1, 0)) {
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
        return 1;
    }
    push_input(L, &request);
    while (FCGX_Accept_r(&request) == 0) {
        if (answer(L, &request)) {
            FCGX_PutS("Status: 500\r\n\r\n", request.out);
            fprintf(stderr, "%s\n", lua_tostring(L, -1));
        }
        lua_settop(L, 2);
        FCGX_Finish_r(&request);
    }
    return 0;
}
