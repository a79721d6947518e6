from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

settings.configure(SECRET_KEY="x", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__)
urlpatterns = [path("", lambda request: HttpResponse("Hello"))]
app = get_wsgi_application()
