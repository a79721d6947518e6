FROM scratch
COPY root/ /
EXPOSE 8080
CMD ["/server"]
