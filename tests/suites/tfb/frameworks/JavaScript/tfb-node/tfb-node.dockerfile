FROM scratch
COPY root/ /
COPY app.js /app.js
ENTRYPOINT ["/node"]
CMD ["/app.js"]
